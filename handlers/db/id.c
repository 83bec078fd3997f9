/* Names and ids. */
#include "id.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

bool db_name_valid(const char *name, size_t length)
{
    if (length == 0 || length > DB_NAME_MAX)
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!letter && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '~' && c != '-')
            return false;
    }
    return !(name[0] == '.' && (length == 1 || (length == 2 && name[1] == '.')));
}

#define RANDOM_BITS 80

/* The last id that was made; guarded by the lock. */
static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER;
static db_id last;

bool db_id_make(size_t count, db_id *ret_first)
{
    struct timespec now;
    uint64_t noise[2];
    if (clock_gettime(CLOCK_REALTIME, &now) != 0 ||
        getrandom(noise, sizeof noise, 0) != (ssize_t)sizeof noise)
        return false;
    db_id ms = (db_id)now.tv_sec * 1000 + (db_id)(now.tv_nsec / 1000000);
    /* The highest random bit is left 0: room for what follows by ones. */
    db_id random = ((db_id)noise[0] << 64 | noise[1]) & (((db_id)1 << (RANDOM_BITS - 1)) - 1);

    pthread_mutex_lock(&last_lock);
    /* In the same millisecond, or after a clock that was set back, ids go on from the last one. */
    db_id first = ms > last >> RANDOM_BITS ? ms << RANDOM_BITS | random : last + 1;
    last = first + (count - 1);
    pthread_mutex_unlock(&last_lock);
    *ret_first = first;
    return true;
}

static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";

void db_id_print(db_id id, char ret_text[static DB_ID_SIZE])
{
    for (size_t i = DB_ID_SIZE; i > 0; i--, id >>= 5)
        ret_text[i - 1] = digits[(unsigned)id & 31];
}

bool db_id_read(const char *text, size_t length, db_id *ret_id)
{
    db_id id = 0;
    if (length != DB_ID_SIZE || text[0] > '7') /* 26 digits are 130 bits */
        return false;
    for (size_t i = 0; i < length; i++) {
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit)
            return false;
        id = id << 5 | (db_id)(digit - digits);
    }
    *ret_id = id;
    return true;
}
