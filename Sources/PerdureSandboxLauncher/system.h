/* What of the machine itself a sandbox shows: its programs and what they need to run. */
#ifndef PERDURE_SANDBOX_SYSTEM_H
#define PERDURE_SANDBOX_SYSTEM_H

/* Directories with programs and libraries, shown read only; a link is shown as the link it is. */
#define SYSTEM_DIRECTORIES {"bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr"}

/* Of /etc only what programs cannot do without and what tells nothing about the machine's users. */
#define SYSTEM_SETTINGS \
  {"etc/alternatives", "etc/ca-certificates", "etc/ld.so.cache", "etc/ld.so.conf", \
   "etc/ld.so.conf.d", "etc/localtime", "etc/pki", "etc/ssl/certs", "etc/ssl/openssl.cnf"}

/* In the tier `landlock` the host's own files stand for the ones that the tier `namespaces` makes
   up; pip asks what system it is on, and takes a refusal for an error. */
#define SYSTEM_NAMES \
  {"etc/debian_version", "etc/group", "etc/hosts", "etc/hostname", "etc/host.conf", \
   "etc/lsb-release", "etc/mime.types", "etc/nsswitch.conf", "etc/os-release", "etc/passwd", \
   "etc/resolv.conf"}

#define SYSTEM_DEVICES {"dev/full", "dev/null", "dev/random", "dev/tty", "dev/urandom", "dev/zero"}

#endif
