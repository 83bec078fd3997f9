/* ulfius.c: the lab's workloads on ulfius, the web framework for C that Debian has: libmicrohttpd and
 * jansson, as slate, used as its manual shows. Callbacks run on the framework's threads and share
 * nothing but the count of answers.
 *
 *     ulfius PORT
 *
 * SIGUSR2 prints the number of requests answered so far, SIGTERM ends the program. */
#include <arpa/inet.h>
#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ulfius.h>

static atomic_ulong answered;

/* Takes the reference to `tree`. */
static int answer(struct _u_response *response, json_t *tree)
{
    atomic_fetch_add_explicit(&answered, 1, memory_order_relaxed);
    int result = tree ? ulfius_set_json_body_response(response, 200, tree) : U_ERROR;
    json_decref(tree);
    return result == U_OK ? U_CALLBACK_CONTINUE : U_CALLBACK_ERROR;
}

static int refuse(struct _u_response *response)
{
    atomic_fetch_add_explicit(&answered, 1, memory_order_relaxed);
    return ulfius_set_empty_body_response(response, 400) == U_OK ? U_CALLBACK_CONTINUE
                                                                 : U_CALLBACK_ERROR;
}

static int hello(const struct _u_request *request, struct _u_response *response, void *arg)
{
    (void)request, (void)arg;
    return answer(response, json_pack("{s:s}", "message", "Hello, World!"));
}

static int echo(const struct _u_request *request, struct _u_response *response, void *arg)
{
    (void)arg;
    json_t *body = ulfius_get_json_body_request(request, NULL);
    return body ? answer(response, body) : refuse(response);
}

static int transfer(const struct _u_request *request, struct _u_response *response, void *arg)
{
    (void)arg;
    json_t *body = ulfius_get_json_body_request(request, NULL);
    json_int_t amount, from_id, to_id;
    const char *from[7], *to[7], *send_on;
    static const char holder[] = "{s:{s:I, s:s, s:s, s:{s:s, s:s, s:s, s:s}, s:s}}";
    if (!body ||
        json_unpack(body, holder, "from", "id", &from_id, "firstName", &from[0], "lastName",
                    &from[1], "address", "street", &from[2], "city", &from[3], "state", &from[4],
                    "zip", &from[5], "email", &from[6]) != 0 ||
        json_unpack(body, holder, "to", "id", &to_id, "firstName", &to[0], "lastName", &to[1],
                    "address", "street", &to[2], "city", &to[3], "state", &to[4], "zip", &to[5],
                    "email", &to[6]) != 0 ||
        json_unpack(body, "{s:I, s:s}", "amount", &amount, "sendOn", &send_on) != 0) {
        json_decref(body);
        return refuse(response);
    }
    char now[32];
    time_t seconds = time(NULL);
    struct tm local;
    localtime_r(&seconds, &local);
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%S%z", &local);
    json_t *receipt = json_object();
    json_object_set_new(receipt, "from_account", json_sprintf("%s %s", from[0], from[1]));
    json_object_set_new(receipt, "to_account", json_sprintf("%s %s", to[0], to[1]));
    json_object_set_new(receipt, "to_address",
                        json_sprintf("%s, %s, %s, %s", to[2], to[3], to[4], to[5]));
    json_object_set_new(receipt, "created_on", json_string(now));
    json_object_set_new(receipt, "amount", json_integer(amount));
    json_decref(body);
    return answer(response, receipt);
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int port = argc == 2 ? atoi(argv[1]) : 0;
    if (port < 1 || port > 65535) {
        fprintf(stderr, "usage: %s PORT\n", argv[0]);
        return 2;
    }
    address.sin_port = htons((uint16_t)port);

    sigset_t signals; /* blocked before any thread is made, so that all come to sigwait below */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);

    struct _u_instance instance;
    if (ulfius_init_instance(&instance, (unsigned)port, &address, NULL) != U_OK ||
        ulfius_add_endpoint_by_val(&instance, "GET", "/json", NULL, 0, hello, NULL) != U_OK ||
        ulfius_add_endpoint_by_val(&instance, "POST", "/echo", NULL, 0, echo, NULL) != U_OK ||
        ulfius_add_endpoint_by_val(&instance, "POST", "/transfer", NULL, 0, transfer, NULL) !=
            U_OK ||
        ulfius_start_framework(&instance) != U_OK)
        return 1;

    int signal = SIGUSR2;
    while (signal == SIGUSR2 && sigwait(&signals, &signal) == 0)
        fprintf(stderr, "answered %lu\n", atomic_load(&answered));
    ulfius_stop_framework(&instance);
    ulfius_clean_instance(&instance);
    return 0;
}
