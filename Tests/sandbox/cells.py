"""The guard around all attacks, and the cells of the matrix: who starts the launcher, in which tier."""

import fcntl
import os
import select
import shutil
import socket
import struct
import subprocess
import threading

from launcher import EXEC, NETWORKS, READ, TIERS, WRITE, Launch, encode, mount

NOBODY = 65534
FOREIGN = (0x70000000, 65536)
HOME = "/home/canary"


def run_quietly(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def write(path, text="", mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, mode)


def raise_loopback():
    """SIOCSIFFLAGS with IFF_UP and IFF_RUNNING."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        fcntl.ioctl(handle, 0x8914, struct.pack("16sH14x", b"lo", 0x41))


class Guard:
    """A home folder with a secret, a process to attack, sockets to reach; all private to this test."""

    def __init__(self, build):
        self.private = "PERDURE_NO_GUARD" not in os.environ
        # Read before a folder of our own may cover theirs.
        programs = {name: open(os.path.join(build, name), "rb").read() for name in os.listdir(build)
                    if os.path.isfile(os.path.join(build, name))}
        if self.private:
            run_quietly("mount", "--make-rprivate", "/")
            run_quietly("mount", "-t", "proc", "proc", "/proc")
            for folder in ("/home", "/root", "/tmp", "/var/tmp", "/dev/shm"):
                if os.path.isdir(folder):
                    run_quietly("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", folder)
            self._protect_machine({"/home", "/root", "/tmp", "/var/tmp", "/dev/shm"})
            socket.sethostname("guard")
            raise_loopback()
        os.makedirs(HOME, exist_ok=True)
        os.chmod(HOME, 0o755)
        write(HOME + "/secret", "canary\n")
        for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run"):
            write(folder + "/host-marker", "canary\n")
        os.makedirs(HOME + "/bin", exist_ok=True)
        for name, content in programs.items():
            with open(HOME + "/bin/" + name, "wb") as file:
                file.write(content)
            os.chmod(HOME + "/bin/" + name, 0o755)
        self.victim = subprocess.Popen(["sleep", "1000"], env={"VICTIM_KEY": "canary-key"})
        self._serve()

    @staticmethod
    def _protect_machine(own):
        """All file systems of the machine become read only here: an attack may succeed."""
        with open("/proc/self/mounts") as file:
            places = [line.split()[1] for line in file if not line.split()[1].startswith("/proc")]
        for place in reversed(places):
            if place not in own and os.path.exists(place):
                subprocess.run(["mount", "-o", "remount,bind,ro", place], stderr=subprocess.DEVNULL)
        run_quietly("mount", "-t", "tmpfs", "tmpfs", "/run")
        if os.statvfs("/usr").f_flag & os.ST_RDONLY == 0:
            raise SystemExit("the guard cannot protect /usr")

    def _serve(self):
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.path = socket.socket(socket.AF_UNIX)
        self.path_name = HOME + "/socket"
        if os.path.exists(self.path_name):
            os.unlink(self.path_name)
        self.path.bind(self.path_name)
        os.chmod(self.path_name, 0o777)
        self.path.listen()
        self.datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        if os.path.exists(self.path_name + "-datagrams"):
            os.unlink(self.path_name + "-datagrams")
        self.datagrams.bind(self.path_name + "-datagrams")
        os.chmod(self.path_name + "-datagrams", 0o777)
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract_name = "perdure-guard-%d" % os.getpid()
        self.abstract.bind("\0" + self.abstract_name)
        self.abstract.listen()
        self.reached = []
        for server in (self.tcp, self.path, self.abstract):
            threading.Thread(target=self._accept, args=(server,), daemon=True).start()

    def _accept(self, server):
        while True:
            connection, _ = server.accept()
            self.reached.append(server)
            connection.close()

    def check(self):
        """What must hold after every attack."""
        problems = []
        with open(HOME + "/secret") as file:
            if file.read() != "canary\n":
                problems.append("the secret was changed")
        if os.stat(HOME + "/secret").st_nlink != 1:
            problems.append("the secret has another name")
        if select.select([self.datagrams], [], [], 0)[0]:
            self.datagrams.recv(16)
            problems.append("a datagram came out")
        if self.victim.poll() is not None:
            problems.append("the victim is dead")
        return problems

    def processes(self):
        """Processes that a launch left: without a guard, those that run in or from our folder."""
        found = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        if not self.private:
            found = {process for process in found if self._is_ours(process)}
        found -= {os.getpid(), self.victim.pid}
        # This is pid 1 of the guard: an orphan that has ended waits for us.
        return {process for process in found if not self._reap(process)}

    @staticmethod
    def _reap(process):
        try:
            return os.waitpid(process, os.WNOHANG)[0] == process
        except ChildProcessError:
            return False

    @staticmethod
    def _is_ours(process):
        for link in ("cwd", "exe"):
            try:
                if os.readlink("/proc/%d/%s" % (process, link)).startswith(HOME + "/"):
                    return True
            except OSError:
                pass
        return False


class Cell:
    """One cell of the matrix: an identity and a tier."""

    def __init__(self, guard, identity, tier):
        self.guard, self.identity, self.tier = guard, identity, tier
        self.name = identity + "/" + tier
        self.strong = tier == "namespaces"
        self.folder = "%s/%s-%s/project" % (HOME, identity, tier)
        self.workspace = "/workspace" if self.strong else self.folder
        self.programs = "/attacks" if self.strong else HOME + "/bin"

    def make_workspace(self):
        """As new: what an attack could do to it is done."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder + "/.git/hooks", exist_ok=True)
        write(self.folder + "/.git/config", "[core]\n")
        write(self.folder + "/hidden/inside", "hidden\n")
        write(os.path.dirname(self.folder) + "/secret", "canary\n")
        server = socket.socket(socket.AF_UNIX)
        server.bind(self.folder + "/socket")
        server.listen()
        os.chmod(self.folder + "/socket", 0o777)
        self.server = server
        owner = NOBODY if self.identity == "unprivileged" else 0
        for path, _, files in os.walk(self.folder):
            os.chown(path, owner, owner)
            for name in files:
                os.chown(os.path.join(path, name), owner, owner)

    def program(self, faults=False):
        launcher = HOME + "/bin/perdure-sandbox" + ("-faults" if faults else "")
        return [HOME + "/bin/dockerlike", launcher] if self.identity == "container" else [launcher]

    def before(self):
        """Run in the child before exec."""
        if self.identity == "unprivileged":
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)

    def policy(self, *more, network="off", access=WRITE, system=True, without=()):
        """The policy of a workspace, with `more` fields."""
        fields = [
            ("tier", TIERS[self.tier]), ("network", NETWORKS[network]),
            mount(self.workspace, self.folder, access, EXEC),
            mount(self.programs, HOME + "/bin", READ, EXEC),
            ("environment", "PATH=/usr/bin:/bin"), ("environment", "HOME=" + self.workspace),
            ("environment", "TMPDIR=" + ("/tmp" if self.strong else self.workspace)),
            ("limit_data", 256 << 20), ("limit_memory", 192 << 20), ("limit_processes", 64),
            ("limit_file", 16 << 20), ("limit_disk_floor", 1 << 20), ("limit_scratch", 8 << 20),
            ("limit_time", 20000), ("grace", 200),
        ]
        if system:
            fields.append(("system",))
        names = {field[0] for field in more}
        if self.identity != "unprivileged":
            fields.append(("users", *FOREIGN))
        if "directory" not in names and "holder" not in names:
            fields.append(("directory", self.workspace))
        return [field for field in fields
                if field[0] not in without
                and (field[0] not in names or field[0] in ("mount", "environment"))] + list(more)

    def start(self, fields, faults=False, wrapper=(), **options):
        """Starts the launcher, behind a `wrapper` that ends by running what follows it."""
        message = fields if isinstance(fields, bytes) else encode(fields)
        options.setdefault("before", self.before)
        return Launch([*wrapper, *self.program(faults)], message, **options)

    def run(self, *command, more=(), **options):
        """Runs a command to its end; the launch and its exit status."""
        policy_options = {key: options.pop(key) for key in ("network", "access", "system", "without")
                          if key in options}
        fields = self.policy(*more, *arguments(*command), **policy_options)
        launch = self.start(fields, **options)
        return launch, launch.finish()

    def attack(self, name, *values, **options):
        return self.run(self.programs + "/" + name, *map(str, values), **options)


def arguments(*command):
    return [("argument", part) for part in command]
