"""Attempts that need a host: limits, ends, terminals, holders, refusals. Named by the row of the list."""

import errno
import os
import select
import shutil
import signal
import socket
import struct
import subprocess

from cells import HOME, NOBODY, arguments
from launcher import EXEC, READ, TIERS, WRITE, Launch, encode, mount

all_scenarios = []


class Scenario:
    def __init__(self, name, tiers, identities, run):
        self.name, self.tiers, self.identities, self.run = name, tiers, identities, run

    def fits(self, cell):
        return cell.tier in self.tiers and cell.identity in self.identities and (
            cell.name != "container/namespaces" or self.identities == ("container",))


BOTH = ("namespaces", "landlock")
STRONG = ("namespaces",)
WEAK = ("landlock",)
EVERYBODY = ("root", "unprivileged", "container")


def scenario(name, tiers=BOTH, identities=EVERYBODY):
    def add(run):
        all_scenarios.append(Scenario(name, tiers, identities, run))
        return run
    return add


def expect(condition, launch=None, *more):
    if not condition:
        seen = [] if launch is None else [launch.records(), launch.text[-300:], launch.errors[-300:]]
        raise AssertionError(" ".join(map(str, [*seen, *more])))


def running(cell, *command, more=(), **options):
    """A launch whose command runs."""
    launch = cell.start(cell.policy(*more, *arguments(*command)), **options)
    launch.pump(until=lambda: launch.record("ready") is not None or launch.record("failed"))
    expect(launch.record("ready") is not None, launch)
    return launch


def burden(cell, *values):
    return [cell.programs + "/burden", *map(str, values)]


# What is refused before anything runs


@scenario("9.9 a container refuses namespaces and says how to allow them", STRONG, ("container",))
def refuses_namespaces(cell):
    launch, status = cell.run("true")
    expect(status == 125 and (launch.record("failed") or "").startswith("namespaces 1 "), launch)
    expect("seccomp" in launch.record("remedy") and "landlock" in launch.record("remedy"), launch)


@scenario("27 a workspace that was replaced is refused")
def replaced_workspace(cell):
    place = mount(cell.workspace, cell.folder)
    wrong = (*place[:-1], place[-1] + 1)
    launch, status = cell.run("true", more=[wrong], without=("mount",))
    stage = "mount" if cell.strong else "landlock"
    expect(status == 125 and launch.record("failed").startswith("%s %d " % (stage, errno.ESTALE)), launch)


@scenario("27 a link on the way to the workspace is refused", STRONG)
def linked_workspace(cell):
    link = os.path.dirname(cell.folder) + "/link"
    if not os.path.islink(link):
        os.symlink(cell.folder, link)
    status = os.stat(cell.folder)
    place = ("mount", WRITE, EXEC, "/workspace", link, status.st_dev, status.st_ino)
    launch, result = cell.run("true", more=[place], without=("mount",))
    expect(result == 125 and launch.record("failed").startswith("mount %d " % errno.ELOOP), launch)


@scenario("43 a file as standard input is refused")
def file_as_input(cell):
    file = os.open(HOME + "/secret", os.O_RDONLY)
    launch, status = cell.run("true", stdio={0: file})
    os.close(file)
    expect(status == 125 and launch.record("failed").startswith("descriptors "), launch)


@scenario("43 a terminal of the host as standard output is refused")
def terminal_as_output(cell):
    ours, theirs = os.openpty()
    launch, status = cell.run("true", stdio={1: theirs})
    os.close(ours)
    os.close(theirs)
    expect(status == 125 and launch.record("failed").startswith("descriptors "), launch)


@scenario("104 a policy with one wrong byte does nothing")
def wrong_policies(cell):
    good = cell.policy(*arguments("true"))
    message = encode(good)
    wrong = {
        "empty": b"", "cut": message[:-1], "longer": message + b"\0", "other version": b"PDRSBOX2" + message[8:],
        "no tier": encode([field for field in good if field[0] != "tier"]),
        "tier twice": encode([*good, good[0]]),
        "unknown field": message[:8] + struct.pack("<I", len(good) + 1) + message[12:] + struct.pack("<HH", 77, 0),
        "values": message[:8] + struct.pack("<I", len(good) + 1) + message[12:] + struct.pack("<HH", 4, 9),
        "NUL": encode([*good, ("argument", "a\0b")]), "relative": encode([*good, ("protect", "a")]),
        "dots": encode([*good, ("protect", "/a/../b")]), "access": encode([*good, ("mount", 3, 0, "/a", "/a", 0, 0)]),
        "uid 0": encode([*good, ("run_as", 0, 0)]), "listen": encode([*good, ("listen", 1, 80)]),
        "no command": encode([field for field in good if field[0] != "argument"]),
    }
    for name, bytes_ in wrong.items():
        launch = cell.start(bytes_)
        status = launch.finish()
        expect(status == 125 and launch.record("failed").startswith("policy 22 "), launch, name)


@scenario("104 what the weaker tier cannot do is refused", WEAK)
def refused_by_weaker_tier(cell):
    for more, network in ((("hide", cell.workspace + "/x"), "off"), (None, "loopback"), (None, "allow"),
                          (("debugger",), "off"), (("holder",), "off"), (("descriptors", 1), "off"),
                          (mount("/elsewhere", cell.folder), "off")):
        launch, status = cell.run("true", more=[more] if more else [], network=network)
        expect(status == 125 and launch.record("failed").startswith("policy 22 "), launch, more, network)


@scenario("104 a guarantee that is missing is refused")
def missing_guarantee(cell):
    launch, status = cell.run("true", more=[("require", "fsRead"), ("require", "killTree")])
    expect(status == 0, launch)
    wanted = ["fsPerfect"] if cell.strong else ["fsPerfect", "processes"]
    if cell.identity != "unprivileged" and not cell.strong:
        wanted.append("limits.pids")
    for name in wanted:
        launch, status = cell.run("true", more=[("require", name)])
        expect(status == 125 and launch.record("failed").startswith("require "), launch, name)


@scenario("2.2 foreign ids that somebody has are refused", STRONG, ("root",))
def taken_ids(cell):
    for users, error in (((65000, 1000), errno.EEXIST), ((0, 65536), None), ((1, 65536), errno.EEXIST)):
        launch, status = cell.run("true", more=[("users", *users)])
        stage = "policy 22 " if error is None else "users %d " % error
        expect(status == 125 and launch.record("failed").startswith(stage), launch, users)


@scenario("3.9 without Landlock the strong tier says so and the weak one refuses", BOTH, ("root", "unprivileged"))
def no_landlock(cell):
    launch = cell.start(cell.policy(*arguments("true")), wrapper=[HOME + "/bin/lacking", "444"])
    status = launch.finish()
    if cell.strong:
        expect(status == 0 and launch.record("weakened landlock") is not None, launch)
    else:
        expect(status == 125 and launch.record("failed").startswith("landlock %d " % errno.EOPNOTSUPP), launch)


@scenario("3.9 without the calls to mount the strong tier refuses", STRONG, ("root", "unprivileged"))
def no_mounts(cell):
    for number, stage in (("437", "devices"), ("428", "devices"), ("442", "devices"), ("155", "root")):
        launch = cell.start(cell.policy(*arguments("true")), wrapper=[HOME + "/bin/lacking", number])
        expect(launch.finish() == 125 and launch.record("failed").startswith(stage + " "), launch, number)


@scenario("3.9 without a filter of calls every tier refuses", BOTH, ("root", "unprivileged"))
def no_filter(cell):
    launch = cell.start(cell.policy(*arguments("true")), wrapper=[HOME + "/bin/lacking", "317"])
    expect(launch.finish() == 125 and launch.record("failed").startswith("seccomp "), launch)


@scenario("3.9 a masked /proc is refused, or left out on request", STRONG, ("unprivileged",))
def masked_proc(cell):
    mask = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /proc/irq && exec \"$0\" \"$@\"", "setpriv",
            "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    launch = cell.start(cell.policy(*arguments("true")), wrapper=mask, before=None)
    expect(launch.finish() == 125 and launch.record("failed").startswith("proc 1 "), launch)
    expect("systempaths" in launch.record("remedy"), launch)
    policy = cell.policy(("without_proc",), *arguments("sh", "-c", "! ls -d /proc/[0-9]*"))
    launch = cell.start(policy, wrapper=mask, before=None)
    expect(launch.finish() == 0 and launch.record("weakened proc") == "1", launch)
    expect(launch.record("weakened limits.memory") is not None, launch)
    launch = cell.start([("require", "limits.memory"), *policy], wrapper=mask, before=None)
    expect(launch.finish() == 125 and launch.record("failed").startswith("proc 95 limits.memory"), launch)


@scenario("3.9 a file system without idmapped mounts is refused, and its owner can run", STRONG, ("root",))
def no_idmap(cell):
    place = os.path.dirname(cell.folder) + "/ramfs"
    os.makedirs(place, exist_ok=True)
    subprocess.run(["mount", "-t", "ramfs", "ramfs", place], check=True)
    os.chown(place, NOBODY, NOBODY)
    try:
        more = [mount("/workspace", place)]
        launch, status = cell.run("true", more=more, without=("mount",))
        expect(status == 125 and launch.record("failed").startswith("idmap %d " % errno.EINVAL), launch)
        more.append(("run_as", NOBODY, NOBODY))
        launch, status = cell.run("touch", "made", more=more, without=("mount", "users", "limit_disk_floor"))
        expect(status == 0 and os.stat(place + "/made").st_uid == NOBODY, launch)
    finally:
        subprocess.run(["umount", place], check=True)


# Files


@scenario("30 read only is read only")
def read_only(cell):
    launch, status = cell.run("sh", "-c", "cat .git/config; ! touch x && ! mkdir y && ! rm .git/config", access=READ)
    expect(status == 0 and "[core]" in launch.text, launch)


@scenario("55 odd protected paths are reported and cost nothing")
def odd_protected_paths(cell):
    link = cell.folder + "/.odd"
    if not os.path.islink(link):
        os.symlink("/etc", link)
    more = [("protect", cell.workspace + name) for name in ("/.odd", "/.odd/passwd", "/.absent", "/.git/config/x")]
    launch, status = cell.run("true", more=more)
    expect(status == 0, launch)
    kinds = [line.split()[1] for line in launch.records() if line.startswith("unprotected ")]
    expect(kinds == (["link", "link", "missing", "missing"] if cell.strong else ["tier"] * 4), launch)
    os.unlink(link)


@scenario("56 what leads to a hidden path stays where it is", STRONG, ("root", "unprivileged"))
def hidden_below_a_folder(cell):
    os.makedirs(cell.folder + "/vault/deep", exist_ok=True)
    with open(cell.folder + "/vault/deep/key", "w") as file:
        file.write("canary")
    for path in (cell.folder + "/vault", cell.folder + "/vault/deep", cell.folder + "/vault/deep/key"):
        os.chmod(path, 0o777)
        if os.geteuid() == 0:
            os.chown(path, os.stat(cell.folder).st_uid, os.stat(cell.folder).st_gid)
    more = [("hide", cell.workspace + "/vault/deep/key")]
    line = "mv vault v; mv vault/deep vault/d; mv vault/deep/key k; rm -f vault/deep/key; cat vault/deep/key v/*/* k"
    launch, _ = cell.run("sh", "-c", "cd %s; %s" % (cell.workspace, line), more=more)
    expect("canary" not in launch.text, launch)
    expect(os.path.isfile(cell.folder + "/vault/deep/key"), launch)
    launch, _ = cell.run("true", more=[("hide", cell.workspace + "/vault/absent")])
    expect(launch.record("failed") is not None, launch)


@scenario("3.5 the root that the host gets is what commands see", STRONG, ("root", "unprivileged"))
def root_descriptor(cell):
    launch = running(cell, "sh", "-c", "echo inside > /tmp/note; read x", more=[("descriptors", 1)], stdio=hold_open())
    root = launch.descriptor(b"r")
    flags = os.O_RDONLY
    names = {"etc/passwd": "nonexistent", "workspace/.git/config": "[core]"}
    for name, text in names.items():
        file = os.open(name, flags, dir_fd=root)
        expect(text in os.read(file, 4096).decode(), launch, name)
        os.close(file)
    top = os.open(".", os.O_RDONLY, dir_fd=root)
    expect({"tmp", "usr", "workspace"} < set(os.listdir(top)) and ".host" not in os.listdir(top), launch)
    os.close(top)
    os.close(root)
    launch.control.send(b"k")
    expect(launch.finish() == 137, launch)


def hold_open():
    """A standard input that does not end. The writing end is in the command, too."""
    ends = os.pipe()
    hold_open.kept.append(ends)
    return {0: ends[0]}


hold_open.kept = []


# Ends


@scenario("74 how commands end")
def endings(cell):
    for command, wanted, record in (
            (["true"], 0, "exit status 0"), (["sh", "-c", "exit 7"], 7, "exit status 7"),
            (["sh", "-c", "kill -9 $$"], 137, "exit signal 9"),
            (["sh", "-c", "no-such-program"], 127, "exit status 127"),
            (["no-such-program"], 125, "failed exec 2 no-such-program"),
            ([cell.workspace + "/.git/config"], 125, "failed exec 13 "),
            (["sh", "-c", "true" + "#" * 200000], 125, "failed exec 7 ")):
        launch, status = cell.run(*command)
        expect(status == wanted and any(line.startswith(record) for line in launch.records()), launch, command[:1])
    launch, status = cell.run("true", more=[("directory", cell.workspace + "/missing")])
    expect(status == 125 and launch.record("failed").startswith("directory 2 "), launch)


@scenario("62 a daemon ends with its command")
def daemon(cell):
    launch, status = cell.run(*burden(cell, "daemon"))
    expect(status == 0 and launch.record("leftover") is not None, launch)


@scenario("63 a background process that holds the output delays nothing")
def held_output(cell):
    launch, status = cell.run(*burden(cell, "output"))
    expect(status == 0 and launch.text == "held yes\n", launch)


@scenario("64 a process that is always new ends, too")
def respawning(cell):
    launch, status = cell.run(*burden(cell, "respawn"), more=[("limit_processes", 40)])
    expect(status == 0 and launch.record("survivors") is None, launch)


@scenario("59 kill(-1) stays inside")
def kill_all(cell):
    launch, status = cell.run(*burden(cell, "kill"))
    expect(launch.record("ready") is not None and status in (0, 137), launch)


@scenario("77 SIGTERM to the launcher ends everything")
def terminated(cell):
    launch = running(cell, *burden(cell, "busy"))
    os.kill(launch.process, signal.SIGTERM)
    expect(launch.finish() == 137 and launch.record("killed") == "signal", launch)


@scenario("77 SIGKILL of the launcher ends everything")
def launcher_killed(cell):
    launch = running(cell, *burden(cell, "busy"))
    os.kill(launch.process, signal.SIGKILL)
    expect(launch.finish() == -9, launch)
    await_end(cell, launch)


def await_end(cell, launch):
    """After SIGKILL of the monitor only its keeper knows; the end of all is when /proc shows none."""
    for process in cell.guard.processes():
        try:
            handle = os.pidfd_open(process)
        except ProcessLookupError:
            continue
        ended = select.select([handle], [], [], 10)[0]
        os.close(handle)
        expect(ended, launch, "a process lives on")
        try:
            os.waitpid(process, os.WNOHANG)
        except ChildProcessError:
            pass


@scenario("77 the end of the host ends everything")
def host_gone(cell):
    launch = running(cell, *burden(cell, "busy"))
    os.close(launch.lifeline)
    launch.lifeline = os.open("/dev/null", os.O_RDONLY)
    expect(launch.finish() == 137 and launch.record("killed") == "lifeline", launch)


@scenario("77 an order to end gives time to end well")
def asked_to_end(cell):
    script = "trap 'exit 3' TERM; echo set; while :; do sleep 0.05; done"
    launch = running(cell, "bash", "-c", script, more=[("grace", 10000)])
    launch.pump(until=lambda: launch.text == "set\n")
    launch.control.send(b"t")
    expect(launch.finish() == 3, launch)


@scenario("77 who ignores the order is killed")
def ignores_order(cell):
    launch = running(cell, *burden(cell, "busy"))
    launch.pump(until=lambda: launch.text != "")
    launch.control.send(b"t")
    expect(launch.finish() == 137 and launch.record("exit") == "signal 9", launch)


@scenario("77 a signal on order")
def signalled(cell):
    launch = running(cell, "sh", "-c", "trap 'exit 9' INT; echo set; while :; do sleep 0.05; done")
    launch.pump(until=lambda: launch.text == "set\n")
    launch.control.send(b"s\2")
    expect(launch.finish() == 9, launch)


STAGES = ["descriptors", "policy", "require", "cgroup", "namespaces", "users", "network", "root", "system",
          "devices", "mount", "idmap", "protect", "proc", "pivot", "limits", "capabilities", "landlock",
          "seccomp", "terminal", "directory", "exec"]


def stages(cell):
    """The stages that a launch of this cell passes."""
    passed = set(STAGES) - {"descriptors", "policy", "cgroup", "idmap", "terminal"}
    if cell.strong:
        return passed | ({"idmap"} if cell.identity == "root" else set())
    return passed - {"users", "network", "root", "system", "devices", "mount", "protect", "proc", "pivot"}


@scenario("78 a stage that fails, stalls or dies is named, and nothing runs", BOTH, ("root", "unprivileged"))
def broken_stages(cell):
    more = [("deadline", 250)]
    if cell.strong:
        more.append(("protect", cell.workspace + "/.git/config"))
    for stage in sorted(stages(cell)):
        for kind, error in ((5, 5), (0, errno.ETIMEDOUT), (999, None)):
            if kind == 999 and (STAGES.index(stage) <= STAGES.index("namespaces") or
                                stage == "users" and cell.identity == "root"):
                continue  # the monitor's own: its end is all that the host sees
            if kind == 999 and stage == "exec":
                continue  # an end after this is the command's own
            fault = ("fault", STAGES.index(stage), kind)
            network = "loopback" if cell.strong else "off"
            launch, status = cell.run("sh", "-c", "echo ran", more=[*more, fault], faults=True, network=network)
            failed = (launch.record("failed") or "").split()
            expect(status == 125 and launch.text == "", launch, stage, kind)
            expect(failed[:1] == [stage] and (error is None or failed[1] == str(error)), launch, stage, kind)
            left = cell.guard.processes()
            expect(not left, launch, stage, kind, left)


# Limits


@scenario("65 a fork bomb stops at its limit")
def fork_bomb(cell):
    launch, status = cell.run(*burden(cell, "forks", 200))
    limited = "enforced limits.pids" in launch.records()
    expect(limited == (cell.strong or cell.identity == "unprivileged"), launch)
    count = int(launch.text)
    expect(count <= 64 or not limited, launch)


@scenario("65 a cgroup is entered before anything runs")
def cgroup(cell):
    members = os.path.dirname(cell.folder) + "/members"
    with open(members, "w"):
        os.chmod(members, 0o666)
    launch, status = cell.run("true", more=[("cgroup", members), ("limit_processes", 0), ("require", "limits.pids")])
    with open(members) as file:
        expect(status == 0 and file.read() == "0", launch)
    launch, status = cell.run("true", more=[("cgroup", members + "-missing")])
    expect(status == 125 and launch.record("failed").startswith("cgroup 2 "), launch)


@scenario("68 memory of many processes")
def memory_of_many(cell):
    launch, status = cell.run(*burden(cell, "many", 16))
    expect(status == 137 and launch.record("limit") == "memory", launch)


@scenario("68 memory of processes without their first thread")
def memory_of_leaderless(cell):
    launch, status = cell.run(*burden(cell, "leaderless", 16))
    expect(status == 137 and launch.record("limit") == "memory", launch)


@scenario("68 tables of memory")
def memory_of_tables(cell):
    launch, status = cell.run(*burden(cell, "tables", 256))
    expect(status == 137 and launch.record("limit") == "memory", launch)


@scenario("69 shared memory")
def shared_memory(cell):
    launch, status = cell.run(*burden(cell, "shared", 1024))
    expect((status == 137 and launch.record("limit") == "memory"), launch)


@scenario("69 segments that nobody maps")
def segments(cell):
    launch, status = cell.run(*burden(cell, "segments", 16))
    stopped = launch.record("limit") == "memory" or launch.text in ("segments ENOSPC\n", "segments EPERM\n")
    expect(stopped, launch)


@scenario("70 time in the processor")
def processor_time(cell):
    launch, status = cell.run(*burden(cell, "busy"), more=[("limit_cpu", 1)])
    expect(status == 137, launch)
    launch, status = cell.run("sh", "-c", "while :; do :; done", more=[("limit_cpu", 1)])
    expect(launch.record("limit") == "cpu", launch)


@scenario("70 time on the clock")
def wall_time(cell):
    launch, status = cell.run(*burden(cell, "busy"), more=[("limit_time", 300)])
    expect(status == 137 and launch.record("limit") == "time", launch)


@scenario("51 a disk that runs full")
def disk_floor(cell):
    launch, status = cell.run(*burden(cell, "busy"), more=[("limit_disk_floor", 1 << 60)])
    expect(status == 137 and (launch.record("limit") or "").startswith("disk "), launch)


@scenario("51 a disk without files left", STRONG, ("root",))
def no_files_left(cell):
    small = os.path.dirname(cell.folder) + "/small"
    os.makedirs(small, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=8192", "tmpfs", small], check=True)
    script = "i=0; while :; do mkdir -p d$i; i=$((i+1)); ( cd d$((i-1)); touch $(seq 500) ); done"
    place = mount("/small", small)
    launch, status = cell.run("bash", "-c", script, more=[place, ("directory", "/small")])
    subprocess.run(["umount", small], check=True)
    expect(status == 137 and launch.record("limit") == "disk /small", launch)


@scenario("108 output is not lost and does not block")
def flood(cell):
    launch, status = cell.run(*burden(cell, "flood", 64))
    expect(status == 0 and len(launch.output[launch.stdout]) == 64 << 20, None, launch.records())


# Environment, terminal, network


@scenario("106 the environment is what the policy says")
def environment(cell):
    script = "env; cat /proc/self/environ /proc/1/environ /proc/$PPID/environ 2>&1 | tr '\\0' '\\n'"
    launch, status = cell.run("sh", "-c", script)
    expect("canary" not in launch.text.replace(HOME, ""), launch)
    if cell.strong:
        expect(cell.run("cat", "/proc/1/cmdline")[0].text.strip("\0") == "sandbox", launch)
    names = {line.split("=")[0] for line in launch.text.splitlines() if "=" in line}
    expect(names == {"PATH", "HOME", "TMPDIR", "PWD"}, launch, names)
    expect("PWD=" + cell.workspace in launch.text, launch)


@scenario("114 a terminal of its own")
def terminal(cell):
    launch = running(cell, "bash", "--norc", "--noprofile", "-i", more=[("terminal", 24, 80), ("environment", "PS1=> ")])
    side = launch.descriptor(b"t")
    text = converse(side, "tty; stty size; echo e''nd\n", "end\r\n")
    expect("/dev/pts/" in text and "24 80" in text, launch, text)
    waits = "sh -c 'echo s\"\"leeps; exec sleep 100'\n"
    text += converse(side, waits, "sleeps\r\n")
    text += converse(side, "\x1a", "Stopped")
    text += converse(side, "kill -9 %1; while jobs | grep -q Stopped; do :; done; echo d''one\n", "done\r\n")
    text += converse(side, waits, "sleeps\r\n")
    text += converse(side, "\x03", "> ")
    text += converse(side, "exit 5\n", None)
    expect(launch.finish() == 5 and "job control" not in text and "process group" not in text, launch, text)
    os.close(side)


def converse(side, typed, until):
    """Types into a terminal and returns what it shows, up to `until` or its end."""
    os.write(side, typed.encode())
    shown = ""
    while until is None or until not in shown:
        if not select.select([side], [], [], 20)[0]:
            raise TimeoutError("the terminal shows only " + repr(shown))
        try:
            data = os.read(side, 4096)
        except OSError:
            data = b""
        if not data:
            break
        shown += data.decode(errors="replace")
    return shown


CONVERSATION = """
import socket
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
peer, _ = server.accept()
peer.send(b'served')
print(client.recv(10).decode())
"""


@scenario("105 a server on the sandbox's own loopback", STRONG)
def own_loopback(cell):
    launch, status = cell.run("python3", "-c", CONVERSATION, network="loopback")
    expect(status == 0 and launch.text == "served\n", launch)


@scenario("93 the host's network with its abstract sockets out of reach", STRONG)
def host_network(cell):
    guard = cell.guard
    port = guard.tcp.getsockname()[1]
    launch, status = cell.attack("network", port, guard.path_name, guard.abstract_name, cell.workspace,
                                 network="host")
    lines = launch.text.splitlines()
    expect("enforced network" not in launch.records(), launch)
    for line in ("93.host-loopback OK", "96.abstract EPERM", "97.path ENOENT", "95.vsock EAFNOSUPPORT"):
        expect(line in lines, launch, line)
    guard.reached.clear()


@scenario("93 the host's network without its other sockets", WEAK)
def host_network_weak(cell):
    guard = cell.guard
    port = guard.tcp.getsockname()[1]
    launch, status = cell.attack("network", port, guard.path_name, guard.abstract_name, cell.workspace,
                                 network="host")
    lines = launch.text.splitlines()
    for line in ("93.host-loopback OK", "96.abstract EAFNOSUPPORT", "97.path EAFNOSUPPORT"):
        expect(line in lines, launch, line)
    guard.reached.clear()


ASK = """
import socket
client = socket.create_connection(('127.0.0.1', 3128))
client.send(b'CONNECT')
print(client.recv(10).decode())
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.connect(('127.0.0.1', 53))
names.send(b'name?')
print(names.recv(10).decode())
"""


@scenario("101 listeners that the host serves", STRONG)
def listeners(cell):
    more = [("listen", 1, 3128), ("listen", 2, 53)]
    launch = cell.start(cell.policy(*more, *arguments("python3", "-c", ASK), network="allow"))
    launch.control.settimeout(10)
    found = {}
    while len(found) < 2:
        message, rights, _, _ = launch.control.recvmsg(16, socket.CMSG_SPACE(4))
        found[message] = socket.socket(fileno=struct.unpack("i", rights[0][2])[0])
    connection, _ = accept(found[b"l\1" + struct.pack("<H", 3128)])
    expect(connection.recv(10) == b"CONNECT", launch)
    connection.send(b"gate")
    names = found[b"l\2" + struct.pack("<H", 53)]
    select.select([names], [], [], 10)
    question, sender = names.recvfrom(10)
    names.sendto(b"refused", sender)
    expect(launch.finish() == 0 and launch.text == "gate\nrefused\n" and question == b"name?", launch)
    for handle in (connection, *found.values()):
        handle.close()


def accept(server):
    if not select.select([server], [], [], 10)[0]:
        raise TimeoutError("nobody connects")
    connection, address = server.accept()
    connection.settimeout(10)
    return connection, address


# Other ways in


@scenario("3.9 as another user than root", BOTH, ("root", "container"))
def other_user(cell):
    os.chown(cell.folder, NOBODY, NOBODY)
    launch, status = cell.run("sh", "-c", "id -u; touch mine; rm mine", more=[("run_as", NOBODY, NOBODY)],
                              without=("users",))
    os.chown(cell.folder, 0, 0)
    expect(status == 0 and launch.text == "65534\n", launch)
    expect("enforced limits.pids" in launch.records(), launch)


@scenario("3.9 nobody becomes another user without the right to", BOTH, ("unprivileged",))
def no_other_user(cell):
    launch, status = cell.run("true", more=[("run_as", 1, 1)])
    expect(status == 125 and launch.record("failed").startswith("users 1 "), launch)
    expect("that user" in launch.record("remedy"), launch)


@scenario("2.4 root inside is not root outside", STRONG, ("root",))
def foreign_root(cell):
    launch, status = cell.run("sh", "-c", "id -u; echo x > made; stat -c %u made; cat /proc/self/uid_map")
    expect(status == 0 and launch.text.split() == ["0", "0", "0", "1879048192", "65536"], launch)
    expect(os.stat(cell.folder + "/made").st_uid == 0, launch)
    os.unlink(cell.folder + "/made")


TRACE = "import ctypes; print(ctypes.CDLL(None).ptrace(0, 0, 0, 0))"


@scenario("60 a debugger on request", STRONG)
def debugger(cell):
    launch, status = cell.run("python3", "-c", TRACE, more=[("debugger",)])
    expect(status == 0 and launch.text == "0\n", launch)


TOOLS = """
set -e
mkdir -p tools && cd tools
git init -q . && echo one > file && git add file
git -c user.name=n -c user.email=e commit -qm first && git log --oneline | wc -l
printf '#include <stdio.h>\\nint main(void){puts("compiled");}\\n' > a.c && gcc a.c -o a && ./a
printf 'all: b\\nb:\\n\\techo made > b\\n' > Makefile && make -s -j2 && cat b
cat <(echo substituted)
python3 -c 'import subprocess; print(subprocess.check_output(["echo", "python"]).decode().strip())'
cd .. && rm -r tools
"""


@scenario("2.3 tools that people use")
def tools(cell):
    more = [("environment", "GIT_CONFIG_NOSYSTEM=1"), ("limit_data", 1 << 30)]
    launch, status = cell.run("bash", "-c", TOOLS, more=more)
    expect(status == 0 and launch.text.split() == ["1", "compiled", "made", "substituted", "python"], launch)


@scenario("3.8 64 commands at once do not mix")
def many_at_once(cell):
    script = "echo $0; for i in 1 2 3; do echo $0 >&2; done; exit $(($0 % 50))"
    limits = [("limit_processes", 0), ("deadline", 60000), ("limit_time", 60000)]
    launches = [cell.start(cell.policy(*limits, *arguments("sh", "-c", script, str(number)))) for number in range(64)]
    for number, launch in enumerate(launches):
        status = launch.finish()
        expect(status == number % 50, launch, number)
        expect(launch.text == "%d\n" % number and launch.errors == "%d\n" % number * 3, launch, number)


# Holder


def holding(cell, *more):
    launch = cell.start(cell.policy(("holder",), *more, network="loopback"))
    launch.pump(until=lambda: launch.record("ready") is not None or launch.record("failed"))
    expect(launch.record("ready") is not None, launch)
    return launch


def order(cell, holder, *command, more=()):
    fields = [("environment", "PATH=/usr/bin:/bin"), ("directory", "/workspace"), *arguments(*command), *more]
    return Launch(None, encode(fields), holder=holder)


@scenario("3.1 commands of one holder share files, not processes", STRONG)
def held_commands(cell):
    holder = holding(cell)
    first = order(cell, holder, "sh", "-c", "echo shared > /tmp/note; echo $$; echo up; exec sleep 1000")
    first.pump(until=lambda: "up" in first.text)
    second = order(cell, holder, "sh", "-c", "cat /tmp/note; ls /proc | grep -c '^[0-9]'; kill -9 -1; kill -0 3")
    second.finish()
    lines = second.text.split()
    expect(lines[0] == "shared" and int(lines[1]) <= 4, second)
    expect(first.record("exit") is None, first)
    first.control.send(b"k")
    first.finish()
    expect(first.record("exit") == "signal 9", first)
    third = order(cell, holder, "sh", "-c", "exit 4")
    third.finish()
    expect(third.record("exit") == "status 4", third)
    os.close(holder.lifeline)
    holder.lifeline = os.open("/dev/null", os.O_RDONLY)
    expect(holder.finish() == 137, holder)


@scenario("3.1 an order cannot change what the holder confines", STRONG)
def orders_cannot_widen(cell):
    holder = holding(cell)
    for more in (("tier", TIERS["none"]), ("network", 3), mount("/host", "/etc"), ("debugger",), ("users", 5, 5),
                 ("run_as", 5, 5), ("limit_scratch", 5)):
        launch = order(cell, holder, "true", more=[more])
        launch.finish()
        expect((launch.record("failed") or "").startswith("policy 22 "), launch, more)
    holder.control.send(b"nonsense")
    launch = order(cell, holder, "true")
    launch.finish()
    expect(launch.record("exit") == "status 0", launch)
    holder.control.close()
    holder.control = socket.socketpair()[0]
    expect(holder.finish() in (0, 137), holder)


@scenario("3.1 the attacks through a holder", STRONG)
def held_attacks(cell):
    holder = holding(cell)
    launch = order(cell, holder, "/attacks/kernel", str(cell.guard.victim.pid))
    launch.finish()
    lines = launch.text.splitlines()
    for line in ("59.host ESRCH", "79.unshare-user EPERM", "91.capabilities none", "91.no-new-privs set",
                 "59.keeper EPERM", "60.attach-init EPERM"):
        expect(line in lines, launch, line)
    proc = order(cell, holder, "sh", "-c", "cat /proc/kallsyms /proc/keys; ! echo x > /proc/sys/kernel/core_pattern")
    proc.finish()
    expect(proc.record("exit") == "status 0" and proc.text == "", proc)
    os.close(holder.lifeline)
    holder.lifeline = os.open("/dev/null", os.O_RDONLY)
    holder.finish()


def replace(cell, name, text):
    """As git and editors save: another file in its place."""
    path = cell.folder + "/" + name
    owner = os.stat(path)
    with open(path + ".new", "w") as file:
        file.write(text)
    os.chown(path + ".new", owner.st_uid, owner.st_gid)
    os.replace(path + ".new", path)


def release(cell, holder):
    os.close(holder.lifeline)
    holder.lifeline = os.open("/dev/null", os.O_RDONLY)
    holder.finish()
    cell.make_workspace()


def ended(launch):
    launch.finish()
    expect((launch.record("exit") or "").startswith("status "), launch)
    return launch.text.split()


@scenario("55 what the host replaces is protected for the next command of a holder", STRONG)
def replaced_protected(cell):
    cell.make_workspace()
    paths = [cell.workspace + name for name in ("/.git/config", "/.git/hooks", "/.agents")]
    holder = holding(cell, *(("protect", path) for path in paths))
    script = "mv .git gone; echo x > .git/config; echo x > .git/hooks/x; echo done"
    for change in (lambda: None, lambda: replace(cell, ".git/config", "[user]\n"),
                   lambda: os.rename(cell.folder + "/.git/hooks", cell.folder + "/.git/hooks.old"),
                   lambda: os.rename(cell.folder + "/.git", cell.folder + "/.git.old")):
        change()
        for name in (".git", ".git/hooks"):
            if not os.path.exists(cell.folder + "/" + name):
                os.mkdir(cell.folder + "/" + name)
                owner = os.stat(cell.folder)
                os.chown(cell.folder + "/" + name, owner.st_uid, owner.st_gid)
        if not os.path.exists(cell.folder + "/.git/config"):
            shutil.copy(cell.folder + "/.git.old/config", cell.folder + "/.git/config")
            os.chown(cell.folder + "/.git/config", owner.st_uid, owner.st_gid)
        launch = order(cell, holder, "sh", "-c", script)
        expect(ended(launch) == ["done"], launch)
        expect(launch.errors.count("Read-only file system") == 2, launch)
        expect(launch.errors.count("Device or resource busy") == 1, launch)
        expect(os.listdir(cell.folder + "/.git/hooks") == [], launch)
    # What is gone is told of; what was never there may be made.
    os.unlink(cell.folder + "/.git/config")
    launch = order(cell, holder, "sh", "-c", "mkdir .agents && echo made")
    expect(ended(launch) == ["made"], launch)
    expect(launch.record("unprotected") == "missing %s/.git/config" % cell.workspace, launch)
    launch = order(cell, holder, "sh", "-c", "echo x > .agents/x && echo made")
    expect(ended(launch) == ["made"], launch)
    # What cannot be protected any more costs the launch.
    release(cell, holder)
    holder = holding(cell, ("hide", cell.workspace + "/hidden"))
    shutil.rmtree(cell.folder + "/hidden")
    os.symlink("/etc", cell.folder + "/hidden")
    launch = order(cell, holder, "true")
    launch.finish()
    expect((launch.record("failed") or "").startswith("mount %d " % errno.ELOOP), launch)
    os.unlink(cell.folder + "/hidden")
    release(cell, holder)


@scenario("54 what the host replaces is hidden from the next command of a holder", STRONG)
def replaced_hidden(cell):
    cell.make_workspace()
    names = ("plain", "hidden", ".git/config")
    with open(cell.folder + "/plain", "w") as file:
        file.write("canary\n")
    paths = [("hide", cell.workspace + "/" + name) for name in names]
    holder = holding(cell, *paths, ("protect", cell.workspace + "/.git/config"))
    script = "cat plain hidden/* .git/config 2> /dev/null; echo x > plain; mv plain moved; echo done"
    for change in (lambda: None, lambda: replace(cell, "plain", "canary 2\n"),
                   lambda: replace(cell, ".git/config", "canary 3\n"),
                   lambda: shutil.rmtree(cell.folder + "/hidden"),
                   lambda: shutil.copytree(cell.folder + "/.git", cell.folder + "/hidden")):
        change()
        launch = order(cell, holder, "sh", "-c", script)
        expect(ended(launch) == ["done"], launch)
        expect(launch.record("unprotected") is None, launch)
    with open(cell.folder + "/plain") as file:
        expect(file.read() == "canary 2\n", launch)
    os.unlink(cell.folder + "/plain")
    release(cell, holder)


@scenario("78 a holder that stalls is ended", STRONG)
def stalled_holder(cell):
    fault = [("holder",), ("fault", STAGES.index("devices"), 0), ("deadline", 250)]
    launch = cell.start(cell.policy(*fault, network="loopback"), faults=True)
    status = launch.finish()
    expect(status == 125 and launch.record("failed").startswith("devices %d " % errno.ETIMEDOUT), launch)


@scenario("3.1 the end of a holder ends its commands", STRONG)
def holder_ends(cell):
    holder = holding(cell)
    launch = order(cell, holder, *burden(cell, "busy"))
    launch.pump(until=lambda: launch.record("ready") is not None)
    os.kill(holder.process, signal.SIGKILL)
    launch.finish()
    expect(holder.finish() == -9, holder)
    await_end(cell, holder)
