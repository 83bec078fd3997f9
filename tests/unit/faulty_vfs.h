/* A disk that fails when a test says so: SQLite's own layer of files, with faults in front of what it
 * does. It becomes the default for connections that are opened from then on. */
#ifndef FAULTY_VFS_H
#define FAULTY_VFS_H

#include <sqlite3.h>

static struct {
    int write, sync, read; /* SQLite's code that the call fails with; 0: it does not */
    int writes, syncs;     /* counted */
} disk;

struct faulty_file {
    sqlite3_file base;
    sqlite3_file *real; /* behind this struct */
};

static sqlite3_vfs faulty_vfs;
static sqlite3_vfs *real_vfs;

static sqlite3_file *real_file(sqlite3_file *file)
{
    return ((struct faulty_file *)file)->real;
}

static int faulty_close(sqlite3_file *file)
{
    return real_file(file)->pMethods->xClose(real_file(file));
}

static int faulty_read(sqlite3_file *file, void *into, int size, sqlite3_int64 at)
{
    return disk.read ? disk.read
                     : real_file(file)->pMethods->xRead(real_file(file), into, size, at);
}

static int faulty_write(sqlite3_file *file, const void *from, int size, sqlite3_int64 at)
{
    disk.writes++;
    return disk.write ? disk.write
                      : real_file(file)->pMethods->xWrite(real_file(file), from, size, at);
}

static int faulty_sync(sqlite3_file *file, int flags)
{
    disk.syncs++;
    return disk.sync ? disk.sync : real_file(file)->pMethods->xSync(real_file(file), flags);
}

static int faulty_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return real_file(file)->pMethods->xTruncate(real_file(file), size);
}

static int faulty_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return real_file(file)->pMethods->xFileSize(real_file(file), size);
}

static int faulty_lock(sqlite3_file *file, int kind)
{
    return real_file(file)->pMethods->xLock(real_file(file), kind);
}

static int faulty_unlock(sqlite3_file *file, int kind)
{
    return real_file(file)->pMethods->xUnlock(real_file(file), kind);
}

static int faulty_reserved(sqlite3_file *file, int *answer)
{
    return real_file(file)->pMethods->xCheckReservedLock(real_file(file), answer);
}

static int faulty_control(sqlite3_file *file, int op, void *arg)
{
    return real_file(file)->pMethods->xFileControl(real_file(file), op, arg);
}

static int faulty_sector(sqlite3_file *file)
{
    return real_file(file)->pMethods->xSectorSize(real_file(file));
}

static int faulty_device(sqlite3_file *file)
{
    return real_file(file)->pMethods->xDeviceCharacteristics(real_file(file));
}

static int faulty_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **at)
{
    return real_file(file)->pMethods->xShmMap(real_file(file), page, size, extend, at);
}

static int faulty_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    return real_file(file)->pMethods->xShmLock(real_file(file), offset, count, flags);
}

static void faulty_shm_barrier(sqlite3_file *file)
{
    real_file(file)->pMethods->xShmBarrier(real_file(file));
}

static int faulty_shm_unmap(sqlite3_file *file, int remove)
{
    return real_file(file)->pMethods->xShmUnmap(real_file(file), remove);
}

static int faulty_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    static const sqlite3_io_methods methods = {
        .iVersion = 2, /* no mapping of the file: each page is read */
        .xClose = faulty_close,
        .xRead = faulty_read,
        .xWrite = faulty_write,
        .xTruncate = faulty_truncate,
        .xSync = faulty_sync,
        .xFileSize = faulty_size,
        .xLock = faulty_lock,
        .xUnlock = faulty_unlock,
        .xCheckReservedLock = faulty_reserved,
        .xFileControl = faulty_control,
        .xSectorSize = faulty_sector,
        .xDeviceCharacteristics = faulty_device,
        .xShmMap = faulty_shm_map,
        .xShmLock = faulty_shm_lock,
        .xShmBarrier = faulty_shm_barrier,
        .xShmUnmap = faulty_shm_unmap,
    };
    struct faulty_file *faulty = (struct faulty_file *)file;
    (void)vfs;
    faulty->real = (sqlite3_file *)(faulty + 1);
    int rc = real_vfs->xOpen(real_vfs, name, faulty->real, flags, out);
    file->pMethods = rc == SQLITE_OK ? &methods : NULL;
    return rc;
}

/* Call before any connection is opened. */
static void faulty_vfs_install(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    faulty_vfs = *real_vfs;
    faulty_vfs.zName = "faulty";
    faulty_vfs.szOsFile = (int)sizeof(struct faulty_file) + real_vfs->szOsFile;
    faulty_vfs.xOpen = faulty_open;
    assert_int_equal(sqlite3_vfs_register(&faulty_vfs, 1), SQLITE_OK);
}

#endif
