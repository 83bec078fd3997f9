/* Names of collections and ids of documents, and ids that the server makes: 26 characters of
 * Crockford's base 32 (0-9, a-z without i, l, o, u), the first ten milliseconds since 1970, the others
 * random. They sort by time as text; two made by one process never sort against the order in which
 * they were made, and two made anywhere differ, by 79 random bits a millisecond. */
#ifndef SLATE_DB_ID_H
#define SLATE_DB_ID_H

#include <stdbool.h>
#include <stddef.h>

#define DB_NAME_MAX 128
#define DB_NAME_ALLOWED "1 to 128 of A-Z a-z 0-9 . _ ~ - and neither \".\" nor \"..\""

/* Whether `name` may name a collection or a document. */
bool db_name_valid(const char *name, size_t length);

#define DB_ID_SIZE 26

/* An id as a number of 128 bits; a run of them is consecutive. */
__extension__ typedef unsigned __int128 db_id;

/* Makes `count` ids: the first, and those that follow by ones. Any thread. false: the system gave no
 * randomness. */
bool db_id_make(size_t count, db_id *ret_first);
/* Not NUL-terminated. */
void db_id_print(db_id id, char ret_text[static DB_ID_SIZE]);
/* Reads what db_id_print wrote. false: it is no such id. */
bool db_id_read(const char *text, size_t length, db_id *ret_id);

#endif
