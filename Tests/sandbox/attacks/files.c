/* files SECRET WORKSPACE HOST-PROCESS READABLE: reads and writes what a command must not. SECRET is
   a file of the host, READABLE one that the policy shows read only. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "attempt.h"

static const char *secret, *workspace, *readable;

static const char *in_workspace(const char *name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", workspace, name);
  return path;
}

static void read_host(void) {
  ATTEMPT("29.secret", open(secret, O_RDONLY));
  ATTEMPT("29.link", (symlink(secret, in_workspace("link")), open(in_workspace("link"), O_RDONLY)));
  ATTEMPT("29.parent", open(in_workspace("../secret"), O_RDONLY));
  ATTEMPT("29.home", open("/home", O_RDONLY | O_DIRECTORY));
  ATTEMPT("29.root-home", open("/root", O_RDONLY | O_DIRECTORY));
  ATTEMPT("30.shadow", open("/etc/shadow", O_RDONLY));
  ATTEMPT("30.gshadow", open("/etc/gshadow", O_RDONLY));
  ATTEMPT("30.machine-id", open("/etc/machine-id", O_RDONLY));
  ATTEMPT("30.sys", open("/sys/kernel", O_RDONLY | O_DIRECTORY));
}

static void write_system(void) {
  ATTEMPT("31.usr", open("/usr/bin/planted", O_WRONLY | O_CREAT, 0755));
  ATTEMPT("31.etc", open("/etc/planted", O_WRONLY | O_CREAT, 0644));
  ATTEMPT("31.root", open("/planted", O_WRONLY | O_CREAT, 0644));
  ATTEMPT("31.dev", open("/dev/planted", O_WRONLY | O_CREAT, 0644));
  ATTEMPT("31.passwd", open("/etc/passwd", O_WRONLY | O_APPEND));
  ATTEMPT("31.rename", rename("/usr/bin/env", "/usr/bin/planted"));
  ATTEMPT("31.write", open(readable, O_WRONLY));
  ATTEMPT("31.chmod", chmod(readable, 0755));
  ATTEMPT("31.truncate", truncate(readable, 0));
  ATTEMPT("31.utimes", utimensat(AT_FDCWD, readable, NULL, 0));
  ATTEMPT("31.xattr", setxattr(readable, "user.planted", "1", 1, 0));
  static const char capabilities[20] = {1, 0, 0, 2};
  ATTEMPT("31.capability-xattr",
          setxattr(in_workspace("."), "security.capability", capabilities, sizeof capabilities, 0));
  ATTEMPT("32.hardlink", link(secret, in_workspace("hard")));
  ATTEMPT("32.hardlink-usr", link("/usr/bin/env", in_workspace("hard2")));
  ATTEMPT("32.rename-out", rename(in_workspace("link"), "/usr/link"));
}

static void mounts(void) {
  ATTEMPT("33.remount-usr", mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL));
  ATTEMPT("33.bind", mount("/", in_workspace("."), NULL, MS_BIND, NULL));
  ATTEMPT("33.tmpfs", mount("tmpfs", in_workspace("."), "tmpfs", 0, NULL));
  ATTEMPT("33.umount", umount2("/proc/sys", MNT_DETACH));
  ATTEMPT("33.umount-proc", umount2("/proc", MNT_DETACH));
  ATTEMPT("33.open-tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1));
  ATTEMPT("33.fsopen", syscall(SYS_fsopen, "tmpfs", 0));
  ATTEMPT("33.mount-setattr", syscall(SYS_mount_setattr, AT_FDCWD, "/usr", 0, "", 0));
  ATTEMPT("33.userns", unshare(CLONE_NEWUSER | CLONE_NEWNS));
  ATTEMPT("46.chroot", chroot(workspace));
  ATTEMPT("46.pivot", syscall(SYS_pivot_root, ".", "."));
}

static void devices(void) {
  ATTEMPT("34.char", mknod(in_workspace("null"), S_IFCHR | 0666, makedev(1, 3)));
  ATTEMPT("34.block", mknod(in_workspace("disk"), S_IFBLK | 0666, makedev(254, 0)));
  ATTEMPT("34.tmp-char", mknod("/tmp/null", S_IFCHR | 0666, makedev(1, 3)));
  ATTEMPT("34.mem", open("/dev/mem", O_RDONLY));
  ATTEMPT("34.disk", open("/dev/vda", O_RDONLY));
  ATTEMPT("34.fuse", open("/dev/fuse", O_RDWR));
  ATTEMPT("34.kvm", open("/dev/kvm", O_RDWR));
  ATTEMPT("34.tty", open("/dev/tty", O_RDWR));
}

static void setuid_files(void) {
  int file = open(in_workspace("mine"), O_WRONLY | O_CREAT, 0755);
  ATTEMPT("35.chmod", chmod(in_workspace("mine"), 04755));
  ATTEMPT("35.fchmod", fchmod(file, 02755));
  ATTEMPT("35.fchmodat2", syscall(452, AT_FDCWD, in_workspace("mine"), 04755, 0));
  ATTEMPT("35.open", open(in_workspace("suid"), O_WRONLY | O_CREAT, 04755));
  ATTEMPT("35.mknod", mknod(in_workspace("suid"), S_IFREG | 04755, 0));
  struct open_how how = {.flags = O_WRONLY | O_CREAT, .mode = 04755};
  ATTEMPT("35.openat2", syscall(SYS_openat2, AT_FDCWD, in_workspace("suid"), &how, sizeof how));
  ATTEMPT("35.chmod-plain", chmod(in_workspace("mine"), 0700));
}

static void magic_links(int host, int parent) {
  char path[4200];
  snprintf(path, sizeof path, "/proc/self/root%s", secret);
  ATTEMPT("37.self-root", open(path, O_RDONLY));
  snprintf(path, sizeof path, "/proc/1/root%s", secret);
  ATTEMPT("37.init-root", open(path, O_RDONLY));
  ATTEMPT("37.init-cwd", open("/proc/1/cwd", O_RDONLY));
  ATTEMPT("37.init-fd", open("/proc/1/fd", O_RDONLY | O_DIRECTORY));
  ATTEMPT("37.init-mem", open("/proc/1/mem", O_RDWR));
  ATTEMPT("37.init-maps", open("/proc/1/maps", O_RDONLY));
  static const char *const parts[] = {"environ", "root", "mem", "fd", "cwd", "exe", "maps"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    char row[32];
    snprintf(row, sizeof row, "38.host-%s", parts[i]);
    snprintf(path, sizeof path, "/proc/%d/%s", host, parts[i]);
    ATTEMPT(row, open(path, O_RDONLY));
    snprintf(row, sizeof row, "38.keeper-%s", parts[i]);
    snprintf(path, sizeof path, "/proc/%d/%s", parent, parts[i]);
    ATTEMPT(row, open(path, O_RDONLY));
  }
  ATTEMPT("58.init-exe", open("/proc/1/exe", O_WRONLY));
  snprintf(path, sizeof path, "/proc/%d/exe", parent);
  ATTEMPT("58.keeper-exe", open(path, O_WRONLY));
}

static void write_proc(void) {
  ATTEMPT("39.core-pattern", open("/proc/sys/kernel/core_pattern", O_WRONLY));
  ATTEMPT("39.modprobe", open("/proc/sys/kernel/modprobe", O_WRONLY));
  ATTEMPT("39.drop-caches", open("/proc/sys/vm/drop_caches", O_WRONLY));
  ATTEMPT("39.pid-max", open("/proc/sys/kernel/pid_max", O_WRONLY));
  ATTEMPT("39.ip-forward", open("/proc/sys/net/ipv4/ip_forward", O_WRONLY));
  ATTEMPT("39.ns-last-pid", open("/proc/sys/kernel/ns_last_pid", O_WRONLY));
  ATTEMPT("39.binfmt", open("/proc/sys/fs/binfmt_misc/register", O_WRONLY));
  ATTEMPT("39.uid-map", ({
            int file = open("/proc/self/uid_map", O_WRONLY);
            file < 0 ? file : write(file, "0 0 1", 5);
          }));
  ATTEMPT("39.oom-lower", ({
            int file = open("/proc/self/oom_score_adj", O_WRONLY);
            file < 0 ? file : write(file, "-900", 4);
          }));
  ATTEMPT("40.sysrq", open("/proc/sysrq-trigger", O_WRONLY));
}

/* Whether a file of /proc tells anything. */
static void reads(const char *row, const char *path) {
  char text[4096] = "";
  int file = open(path, O_RDONLY | O_NONBLOCK);
  if (file < 0) {
    tell(row, -1);
    return;
  }
  ssize_t length = read(file, text, sizeof text);
  if (length < 0) {
    tell(row, -1);
  } else {
    say(row, length == 0 || strncmp(text, "0000000000000000 ", 17) == 0 ? "empty" : "read");
  }
  close(file);
}

static void read_proc(void) {
  reads("40.kcore", "/proc/kcore");
  reads("40.keys", "/proc/keys");
  reads("40.kmsg", "/proc/kmsg");
  reads("40.kallsyms", "/proc/kallsyms");
  reads("40.timer-list", "/proc/timer_list");
  reads("40.cpuinfo", "/proc/cpuinfo");
  reads("40.meminfo", "/proc/meminfo");
}

static void handles(void) {
  struct {
    struct file_handle handle;
    unsigned char bytes[8];
  } root = {.handle = {.handle_bytes = 8, .handle_type = 1}, .bytes = {2}};
  ATTEMPT("42.handle", open_by_handle_at(AT_FDCWD, &root.handle, O_RDONLY));
  int id;
  ATTEMPT("42.name", name_to_handle_at(AT_FDCWD, "/", &root.handle, &id, 0));
}

static void descriptors(void) {
  ATTEMPT("44.descriptor-3", lseek(3, 0, SEEK_CUR));
  ATTEMPT("44.descriptor-4", lseek(4, 0, SEEK_CUR));
  ATTEMPT("44.descriptor-5", lseek(5, 0, SEEK_CUR));
  ATTEMPT("44.descriptor-6", lseek(6, 0, SEEK_CUR));
  ATTEMPT("44.descriptor-20", lseek(20, 0, SEEK_CUR));
  ATTEMPT("44.descriptor-21", lseek(21, 0, SEEK_CUR));
  for (int stream = 0; stream < 3; stream++) {
    struct stat status;
    char row[32];
    snprintf(row, sizeof row, "43.stream-%d", stream);
    fstat(stream, &status);
    say(row, S_ISFIFO(status.st_mode) ? "pipe" : S_ISCHR(status.st_mode) ? "device" : "other");
  }
}

static void shared_folders(void) {
  ATTEMPT("47.tmp", open("/tmp/host-marker", O_RDONLY));
  ATTEMPT("47.shm", open("/dev/shm/host-marker", O_RDONLY));
  ATTEMPT("47.run", open("/run/host-marker", O_RDONLY));
  ATTEMPT("47.var-tmp", open("/var/tmp/host-marker", O_RDONLY));
}

static void fill(const char *row, const char *path, size_t most) {
  static char block[1 << 16];
  signal(SIGXFSZ, SIG_IGN);
  int file = open(path, O_WRONLY | O_CREAT, 0600);
  long result = file;
  for (size_t sum = 0; result >= 0 && sum < most; sum += sizeof block) {
    result = write(file, block, sizeof block);
  }
  tell(row, result);
  close(file);
  unlink(path);
}

static void limits(void) {
  fill("51.tmp", "/tmp/fill", 64 << 20);
  fill("51.shm", "/dev/shm/fill", 64 << 20);
  fill("52.file", in_workspace("large"), 64 << 20);
  ATTEMPT("52.truncate", ({
            int file = open(in_workspace("large"), O_WRONLY | O_CREAT, 0600);
            int result = ftruncate(file, 1 << 30);
            int error = errno;
            unlink(in_workspace("large"));
            errno = error;
            result;
          }));
}

static void protected_paths(void) {
  char other[4096];
  snprintf(other, sizeof other, "%s", in_workspace(".git2"));
  ATTEMPT("54.new-hook", open(in_workspace(".git/hooks/post-checkout"), O_WRONLY | O_CREAT, 0755));
  ATTEMPT("54.config", open(in_workspace(".git/config"), O_WRONLY | O_APPEND));
  ATTEMPT("54.index", open(in_workspace(".git/index.lock"), O_WRONLY | O_CREAT | O_EXCL, 0644));
  unlink(in_workspace(".git/index.lock"));
  ATTEMPT("54.hardlink-config", ({
            char from[4096];
            snprintf(from, sizeof from, "%s", in_workspace(".git/config"));
            int result = link(from, in_workspace("config-by-another-name"));
            int error = errno;
            unlink(in_workspace("config-by-another-name"));
            errno = error;
            result;
          }));
  ATTEMPT("54.chmod-config", chmod(in_workspace(".git/config"), 0600));
  ATTEMPT("54.remove-config", unlink(in_workspace(".git/config")));
  ATTEMPT("54.remove-hooks", rmdir(in_workspace(".git/hooks")));
  ATTEMPT("54.rename-hooks", ({
            char from[4096];
            snprintf(from, sizeof from, "%s", in_workspace(".git/hooks"));
            rename(from, in_workspace(".git/old"));
          }));
  ATTEMPT("54.rename-git", ({
            char from[4096];
            snprintf(from, sizeof from, "%s", in_workspace(".git"));
            int result = rename(from, other);
            if (result == 0) rename(other, from);
            result;
          }));
  ATTEMPT("54.exchange-git", ({
            char from[4096];
            snprintf(from, sizeof from, "%s", in_workspace(".git"));
            mkdir(other, 0755);
            int result = renameat2(AT_FDCWD, from, AT_FDCWD, other, RENAME_EXCHANGE);
            if (result == 0) renameat2(AT_FDCWD, from, AT_FDCWD, other, RENAME_EXCHANGE);
            int error = errno;
            rmdir(other);
            errno = error;
            result;
          }));
  ATTEMPT("55.missing", ({
            int file = open(in_workspace(".agents"), O_WRONLY | O_CREAT, 0644);
            unlink(in_workspace(".agents"));
            file;
          }));
  ATTEMPT("54.hidden", open(in_workspace("hidden/inside"), O_RDONLY));
}

int main(int count, char **arguments) {
  if (count != 5) return 2;
  secret = arguments[1];
  workspace = arguments[2];
  readable = arguments[4];
  descriptors();
  read_host();
  write_system();
  devices();
  setuid_files();
  magic_links(atoi(arguments[3]), getppid());
  write_proc();
  read_proc();
  handles();
  shared_folders();
  limits();
  protected_paths();
  mounts();
  return 0;
}
