/* Tells the service manager how the server is (systemd's sd_notify protocol, without its library).
 * Any thread. */
#ifndef SLATE_NOTIFY_H
#define SLATE_NOTIFY_H

/* Sends "READY=1", "STOPPING=1" or "STATUS=..." to the socket that NOTIFY_SOCKET names; without one
 * it does nothing. A failure is logged. */
void notify_send(const char *state);

#endif
