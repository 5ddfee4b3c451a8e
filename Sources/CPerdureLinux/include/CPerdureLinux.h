/* Everything of this module. One header that names the others, because a compiler that cached the
 * module does not notice a file that is new in a folder. */
#ifndef CPERDURE_LINUX_H
#define CPERDURE_LINUX_H

#include "perdure_author.h"
#include "perdure_bench.h"
#include "perdure_breadcrumb.h"
#include "perdure_channel.h"
#include "perdure_clock.h"
#include "perdure_command.h"
#include "perdure_confine.h"
#include "perdure_copies.h"
#include "perdure_executor.h"
#include "perdure_files.h"
#include "perdure_gate.h"
#include "perdure_process.h"
#include "perdure_runner.h"
#include "perdure_sandbox.h"
#include "perdure_session.h"
#include "perdure_sha256.h"
#include "perdure_signals.h"
#include "perdure_storage.h"
#include "perdure_terminal.h"
#include "perdure_text.h"
#include "perdure_timers.h"
#include "perdure_tree.h"
#include "perdure_watch.h"

#endif
