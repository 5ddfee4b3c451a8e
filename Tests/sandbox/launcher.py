"""Speaks to perdure-sandbox as a host does: a policy in, records and output out."""

import array
import fcntl
import os
import select
import socket
import struct
import time

TAGS = {
    "tier": 1, "users": 2, "run_as": 3, "system": 4, "mount": 5, "protect": 6, "hide": 7,
    "network": 8, "listen": 9, "environment": 10, "argument": 11, "directory": 12, "terminal": 13,
    "debugger": 14, "holder": 15, "cgroup": 16, "require": 17, "without_proc": 18, "deadline": 19,
    "descriptors": 20, "limit_data": 30, "limit_memory": 31, "limit_processes": 32, "limit_cpu": 33,
    "limit_time": 34, "limit_file": 35, "limit_disk_floor": 36, "limit_descriptors": 37,
    "limit_scratch": 38, "grace": 39, "fault": 90,
}
TIERS = {"namespaces": 1, "landlock": 2, "none": 3}
NETWORKS = {"off": 0, "loopback": 1, "allow": 2, "host": 3}
READ, WRITE, EXEC = 1, 2, 1


def encode(fields):
    """The message of `fields`: a list of (name, value, ...)."""
    message = b"PDRSBOX1" + struct.pack("<I", len(fields))
    for name, *values in fields:
        message += struct.pack("<HH", TAGS[name], len(values))
        for value in values:
            if isinstance(value, int):
                value = struct.pack("<Q", value)
            elif isinstance(value, str):
                value = os.fsencode(value)
            message += struct.pack("<I", len(value)) + value + b"\0"
    return message


def mount(inside, outside, access=WRITE, flags=EXEC):
    """A mount that must still be the directory that it is now."""
    status = os.stat(outside)
    return ("mount", access, flags, inside, outside, status.st_dev, status.st_ino)


class Launch:
    """One launcher process and the host's ends of its descriptors."""

    def __init__(self, program, message, before=None, extra=(), stdio=None, holder=None):
        ours, theirs = [], []
        for readable in (False, True, True, False, True, False):
            ends = os.pipe()
            ours.append(ends[0] if readable else ends[1])
            theirs.append(ends[1] if readable else ends[0])
        stdin, self.stdout, self.stderr, policy, self.status, self.lifeline = ours
        self.control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs.append(control.fileno())
        os.close(stdin)
        if stdio is not None:
            for place, descriptor in stdio.items():
                os.close(theirs[place])
                theirs[place] = os.dup(descriptor)
        self.output = {self.stdout: bytearray(), self.stderr: bytearray(), self.status: bytearray()}
        self.received = {}
        self.process = None
        if holder is None:
            self.process = self._spawn(program, theirs, before, extra)
        else:
            rights = array.array("i", theirs)
            holder.control.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        control.detach()
        for descriptor in theirs:
            os.close(descriptor)
        try:
            os.write(policy, message) if len(message) <= 65536 else self._feed(policy, message)
        except BrokenPipeError:
            pass
        os.close(policy)

    @staticmethod
    def _feed(policy, message):
        with os.fdopen(os.dup(policy), "wb") as file:
            file.write(message)

    @staticmethod
    def _spawn(program, theirs, before, extra):
        process = os.fork()
        if process != 0:
            return process
        try:
            # Out of the way of the places, so that none is overwritten before it was read.
            high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 32) for descriptor in theirs]
            for place, descriptor in enumerate(high):
                os.dup2(descriptor, place, inheritable=True)
            for place, descriptor in enumerate(extra):
                os.dup2(descriptor, 20 + place, inheritable=True)
            if before is not None:
                before()
            os.execvpe(program[0], [*program, "--run"], dict(os.environ, HOST_API_KEY="canary-key"))
        finally:
            os._exit(124)

    def pump(self, until=None, timeout=30):
        """Collects output until all ends are closed, or until `until()` holds."""
        deadline = time.monotonic() + timeout
        poll = select.poll()
        open_ends = set(self.output)
        for end in open_ends:
            poll.register(end, select.POLLIN)
        while open_ends and not (until is not None and until()):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("the launcher does not end: " + repr(self.output[self.status]))
            for end, _ in poll.poll(left * 1000):
                data = os.read(end, 65536)
                if data:
                    self.output[end] += data
                else:
                    open_ends.discard(end)
                    poll.unregister(end)

    def records(self):
        return self.output[self.status].decode(errors="replace").splitlines()

    def record(self, word):
        """What stands behind the first record that starts with `word`, or None."""
        for line in self.records():
            if line == word or line.startswith(word + " "):
                return line[len(word) + 1:]
        return None

    def descriptor(self, kind, timeout=10):
        """The descriptor that the launcher sends with a message that starts with byte `kind`."""
        self.control.settimeout(timeout)
        while kind not in self.received:
            message, rights, _, _ = self.control.recvmsg(16, socket.CMSG_SPACE(4))
            self.received[message[:1]] = array.array("i", rights[0][2])[0]
        return self.received[kind]

    def finish(self, timeout=30):
        """Waits for the end; the launcher's exit status (negative for a signal), None in a holder."""
        self.pump(timeout=timeout)
        for end in (*self.output, self.lifeline):
            os.close(end)
        self.control.close()
        if self.process is None:
            return None
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])

    @property
    def text(self):
        return self.output[self.stdout].decode(errors="replace")

    @property
    def errors(self):
        return self.output[self.stderr].decode(errors="replace")

