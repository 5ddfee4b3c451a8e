/* @NAME@: a plugin for Perdure. What the functions do stands in @SDK_FOLDER@/perdure_easy.h. */
#include "perdure_easy.h"

PDR_PLUGIN_NOTE("c");
PDR_MANIFEST_FILE("@NAME@.json");

/* The tool: the schema in @NAME@.json has checked that name is a string. */
static int32_t greet(pdr_easy_call *call) {
  char name[256];
  if (!pdr_easy_string(call, "name", name, sizeof name) || !name[0])
    return pdr_easy_fail(call, "the name must have from 1 to 255 bytes");
  return pdr_easy_answerf(call, "Hello, %s!", name);
}
//@if section

/* A section of the prompt: what the model is told beside its tools. */
static int32_t section(pdr_easy_call *call) {
  return pdr_easy_answer(call, "Whoever is greeted is greeted by name.");
}
//@end
//@if guard

/* A guard: is asked before each call of the tool, and may say no. If it fails, the call is denied. */
static int32_t guard(pdr_easy_call *call) {
  pdr_str name;
  char text[256];
  if (pdr_easy_find(pdr_easy_input(call), "call.arguments.name", &name) &&
      pdr_easy_text(name, text, sizeof text) && strcmp(text, "nobody") == 0)
    return pdr_easy_deny(call, "nobody must not be greeted");
  return pdr_easy_nothing(call);
}
//@end
//@if wrap

/* A wrap: runs around the tool, and may change what goes in and what comes out. */
static int32_t wrap(pdr_easy_call *call) {
  char name[256];
  if (pdr_easy_string(call, "name", name, sizeof name) && strcmp(name, "world") == 0)
    return pdr_easy_pass_with(call, "{\"name\":\"World\"}");
  return pdr_easy_pass(call);
}
//@end
//@if task

#define GREETING "@ID@.greeting"

/* A tool that begins a durable task and waits for it. After a crash the task goes on where it was, and
 * the call, which runs again, finds it. */
static int32_t greet_later(pdr_easy_call *call) {
  char room[8192];
  pdr_str name, found, text;
  int64_t task = 0;
  if (!pdr_easy_member(call->arguments, "name", &name)) return pdr_easy_fail(call, "name is missing");
  if (pdr_easy_request(call, "tasks.scan", "{\"owner\":\"self\",\"kind\":\"" GREETING "\"}", room,
                       sizeof room))
    return pdr_easy_fail(call, "the tasks of this call cannot be read");
  if (!pdr_easy_find(pdr_easy_str(room), "items", &found) || !pdr_easy_item(found, 0, &found) ||
      !pdr_easy_find(found, "id", &found)) {
    if (pdr_easy_requestf(call, "commit", room, sizeof room,
                          "{\"steps\":[{\"do\":\"task.create\",\"type\":\"" GREETING "\",\"input\":"
                          "{\"name\":%.*s},\"owner\":\"self\",\"as\":\"new\"}]}",
                          PDR_EASY_JSON(name)) ||
        !pdr_easy_find(pdr_easy_str(room), "ids.new", &found))
      return pdr_easy_fail(call, "no task can be begun");
  }
  if (!pdr_easy_number(found, &task) ||
      pdr_easy_requestf(call, "task.wait", room, sizeof room, "{\"task\":%lld}", (long long)task) ||
      !pdr_easy_find(pdr_easy_str(room), "state.outcome.result.text", &text))
    return pdr_easy_fail(call, "the task was not completed");
  return pdr_easy_answer_json(call, "{\"output\":[{\"type\":\"text\",\"text\":%.*s}]}",
                              PDR_EASY_JSON(text));
}

/* The phases of the task. Each ends with a commit of what comes next; a crash repeats it from its
 * beginning. This one rests for 50 ms, and could for a month: a task that sleeps needs no process. */
static int32_t rest(pdr_easy_call *call) {
  char room[256];
  pdr_str now;
  int64_t ms;
  if (pdr_easy_request(call, "clock", "{}", room, sizeof room) ||
      !pdr_easy_find(pdr_easy_str(room), "now", &now) || !pdr_easy_number(now, &ms))
    return pdr_easy_fail(call, "there is no clock");
  return pdr_easy_answer_json(
      call, "{\"state\":{\"status\":\"sleeping\",\"checkpoint\":{\"phase\":\"greet\"},\"until\":%lld}}",
      (long long)ms + 50);
}

static int32_t greet_at_last(pdr_easy_call *call) {
  char text[256], quoted[1024];
  pdr_str name;
  if (!pdr_easy_find(pdr_easy_input(call), "task.input.name", &name) ||
      !pdr_easy_text(name, text, sizeof text - 32))
    return pdr_easy_fail(call, "the name is missing or too long");
  memmove(text + 7, text, strlen(text) + 1);
  memcpy(text, "Hello, ", 7);
  if (!pdr_easy_quote(quoted, sizeof quoted, strcat(text, " at last!")))
    return pdr_easy_fail(call, "the name is too long");
  return pdr_easy_answer_json(
      call,
      "{\"state\":{\"status\":\"terminal\",\"outcome\":{\"status\":\"completed\",\"result\":"
      "{\"text\":%s}}}}",
      quoted);
}
//@end

PDR_EASY_PLUGIN(
//@if section
    {"section:@NAME@", section},
//@end
//@if guard
    {"hook:beforeTool", guard},
//@end
//@if wrap
    {"wrap:tool:@NAME@", wrap},
//@end
//@if task
    {"@NAME@-later", greet_later},
    {"task:" GREETING "@1/rest", rest},
    {"task:" GREETING "@1/greet", greet_at_last},
//@end
    {"@NAME@", greet})
