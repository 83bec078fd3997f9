/* Log lines to stderr: "2026-11-30T12:00:00.123Z info    message". One write(2) per line, from any
 * thread; errno is left alone. */
#ifndef SLATE_LOG_H
#define SLATE_LOG_H

#include "options.h"

#define LOG_LINE_MAX 2048 /* bytes of a line, the newline included; a longer one ends in "..." */

void log_set_level(log_level level); /* LOG_INFO before the first call */
bool log_enabled(log_level level);
void log_line(log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes a line of at most LOG_LINE_MAX bytes if the file takes it now. false: it is lost. A reader
 * that has stopped reading must not stop the server. From any thread. */
bool log_write(int fd, const char *line, size_t length);

/* Replaces the control characters of a text (UTF-8's C1 ones too) by '?', so that what a client
 * sent cannot begin a line of its own or steer a terminal. */
void log_clean(char *text, size_t length);

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif
