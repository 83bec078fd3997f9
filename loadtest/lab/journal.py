"""What a long run has found so far, on disk as it is found: one that was interrupted goes on where
it stopped. A file of JSON lines; the first says of which run they are."""

import fcntl
import json
import os
import time


class JournalError(Exception):
    pass


class Journal:
    """`about`: what has to be the same for slots to belong together; the seed is the first run's."""

    def __init__(self, path, about, seed):
        self.seed, self.slots, self.counted, self.versions = seed, {}, {}, {}
        self.seconds_before = 0.0  # of earlier sessions
        self._start = time.monotonic()
        is_new = not os.path.exists(path)
        self._file = open(path, "a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise JournalError(f"{path} is in use by another run") from error
        if is_new:
            self._write({"about": about, "seed": seed})
            return
        self._file.seek(0)
        self._read(path, about)

    def _read(self, path, about):
        try:
            text = self._file.read()
            whole = text[:text.rfind("\n") + 1]  # the last line may have been cut off
            first, *entries = [json.loads(line) for line in whole.splitlines()]
            self.seed, was = first["seed"], first["about"]
            for entry in entries:
                self.seconds_before = entry["seconds"]
                if "slot" in entry:
                    self.slots[self._key(entry["scenario"], entry["slot"])] = entry["slot"]
                elif "version" in entry:
                    self.versions[entry["arm"]] = entry["version"]
                else:
                    self.counted[entry["scenario"], entry["arm"]] = entry["counted"]
        except (ValueError, KeyError, TypeError) as error:
            raise JournalError(f"{path} is no journal of a run: {error!r}") from error
        os.truncate(path, len(whole.encode()))
        other = [f"{name} was {was.get(name)!r}, is {value!r}" for name, value in about.items()
                 if was.get(name) != value]
        if other:
            raise JournalError(f"{path} is of another run ({'; '.join(other)}): "
                               "remove it, or name another with --state")

    @staticmethod
    def _key(scenario, slot):
        return scenario, slot["block"], slot["pair"], slot["arm"], slot["repeat"]

    def seconds(self):
        """In all sessions."""
        return self.seconds_before + time.monotonic() - self._start

    def slot(self, scenario, slot):
        self._write({"seconds": self.seconds(), "scenario": scenario, "slot": slot})

    def count(self, scenario, arm, counted):
        self._write({"seconds": self.seconds(), "scenario": scenario, "arm": arm, "counted": counted})

    def version(self, arm, version):
        self._write({"seconds": self.seconds(), "arm": arm, "version": version})

    def _write(self, entry):
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()

    def close(self):
        self._file.close()
