/* A plugin in C with one of each kind: it keeps notes and shows them to the model. */
#include "perdure_easy.h"

PDR_PLUGIN_NOTE("c");
PDR_MANIFEST_FILE("notes.json");

#define LIST "example.notes-c.list"
#define KEEP "example.notes-c.keep"

/* Gives the id of the task that keeps the note of this call; 0 and a sentence in room if there is none. */
static int64_t begin(pdr_easy_call *call, pdr_str text, char *room, size_t size) {
  pdr_str items, id;
  int64_t task = 0;
  if (pdr_easy_request(call, "tasks.scan", "{\"owner\":\"self\",\"kind\":\"" KEEP "\"}", room, size))
    return 0;
  /* A call that runs again after a crash finds what it had begun. */
  if (pdr_easy_find(pdr_easy_str(room), "items", &items) && pdr_easy_item(items, 0, &items))
    return pdr_easy_find(items, "id", &id) && pdr_easy_number(id, &task) ? task : 0;
  if (pdr_easy_requestf(call, "commit", room, size,
                        "{\"steps\":[{\"do\":\"task.create\",\"type\":\"" KEEP "\",\"input\":"
                        "{\"text\":%.*s},\"owner\":\"self\",\"as\":\"s1\"}]}",
                        PDR_EASY_JSON(text)))
    return 0;
  return pdr_easy_find(pdr_easy_str(room), "ids.s1", &id) && pdr_easy_number(id, &task) ? task : 0;
}

/* A tool: says what it does, begins a task that keeps the note, and waits for it. */
static int32_t note(pdr_easy_call *call) {
  char room[8192] = "", memory[128];
  pdr_str text, begun, notes;
  int64_t task;
  if (!pdr_easy_member(call->arguments, "text", &text)) return pdr_easy_fail(call, "text is missing");
  pdr_easy_emit(call, "keeping the note\n");
  /* The same after a crash, because the task remembers it. */
  if (pdr_easy_request(call, "clock", "{}", room, sizeof room) ||
      !pdr_easy_find(pdr_easy_str(room), "now", &begun) ||
      pdr_easy_requestf(call, "memo", memory, sizeof memory,
                        "{\"name\":\"begun\",\"candidate\":%.*s}", PDR_EASY_JSON(begun)) ||
      !pdr_easy_find(pdr_easy_str(memory), "value", &begun))
    return pdr_easy_fail(call, "the note cannot be begun");
  task = begin(call, text, room, sizeof room);
  if (!task) return pdr_easy_fail(call, "no task can be begun");
  pdr_easy_emit_json(call, "{\"details\":{\"task\":%lld}}", (long long)task);
  if (pdr_easy_requestf(call, "task.wait", room, sizeof room, "{\"task\":%lld}", (long long)task) ||
      !pdr_easy_find(pdr_easy_str(room), "state.outcome.result.notes", &notes))
    return pdr_easy_fail(call, "the note was not kept");
  return pdr_easy_answer_json(call,
                              "{\"output\":[{\"type\":\"text\",\"text\":\"note %.*s is kept\"}],"
                              "\"details\":{\"task\":%lld,\"begun\":%.*s}}",
                              PDR_EASY_JSON(notes), (long long)task, PDR_EASY_JSON(begun));
}

/* The two phases of the task. Each ends with a commit that says what is next. */
static int32_t wait(pdr_easy_call *call) {
  char room[256];
  pdr_str value;
  int64_t now;
  if (pdr_easy_request(call, "clock", "{}", room, sizeof room) ||
      !pdr_easy_find(pdr_easy_str(room), "now", &value) || !pdr_easy_number(value, &now))
    return pdr_easy_fail(call, "there is no clock");
  return pdr_easy_answer_json(
      call, "{\"state\":{\"status\":\"sleeping\",\"checkpoint\":{\"phase\":\"write\"},\"until\":%lld}}",
      (long long)now + 50);
}

static int32_t write_note(pdr_easy_call *call) {
  char room[65536];
  pdr_str notes, text, item;
  size_t count = 0;
  if (!pdr_easy_find(pdr_easy_input(call), "task.input.text", &text) ||
      pdr_easy_document(call, LIST, NULL, room, sizeof room))
    return pdr_easy_fail(call, "the notes cannot be read");
  if (pdr_easy_find(pdr_easy_str(room), "value.notes", &notes))
    while (pdr_easy_item(notes, count, &item)) count++;
  return pdr_easy_answer_json(
      call,
      "{\"steps\":[{\"do\":\"doc\",\"kind\":\"" LIST "\",\"ops\":[[\"p\",[\"notes\"],%zu,0,[%.*s]]]}],"
      "\"state\":{\"status\":\"terminal\",\"outcome\":{\"status\":\"completed\",\"result\":"
      "{\"notes\":%zu}}}}",
      count, PDR_EASY_JSON(text), count + 1);
}

/* A section of the prompt, left out while there are no notes. */
static int32_t notes(pdr_easy_call *call) {
  char room[8192], text[8192] = "Notes so far:";
  pdr_str notes, item;
  size_t i;
  if (pdr_easy_document(call, LIST, NULL, room, sizeof room))
    return pdr_easy_fail(call, "the notes cannot be read");
  if (!pdr_easy_find(pdr_easy_str(room), "value.notes", &notes)) return pdr_easy_nothing(call);
  for (i = 0; pdr_easy_item(notes, i, &item); i++) {
    size_t length = strlen(text);
    if (length + 4 > sizeof text) break;
    memcpy(text + length, "\n- ", 4);
    pdr_easy_text(item, text + length + 3, sizeof text - length - 3);
  }
  return pdr_easy_answer(call, text);
}

/* A guard: refuses secrets, and has somebody asked about what is private. */
static int32_t guard(pdr_easy_call *call) {
  char text[4096] = "";
  pdr_str value;
  if (pdr_easy_find(pdr_easy_input(call), "call.arguments.text", &value) && !pdr_easy_text(value, text, sizeof text))
    return pdr_easy_deny(call, "the note is too long");
  if (strstr(text, "secret")) return pdr_easy_deny(call, "secrets do not belong into notes");
  if (strstr(text, "private")) return pdr_easy_ask(call, "private", "Keep a private note?");
  return pdr_easy_nothing(call);
}

/* A wrap: cuts blanks off the argument, and says so. */
static int32_t trim(pdr_easy_call *call) {
  char room[8192];
  pdr_str text, result, output, details;
  size_t length;
  if (!pdr_easy_member(call->arguments, "text", &text)) return pdr_easy_fail(call, "text is missing");
  length = text.len;
  /* Between the quotes; a blank at an end of a JSON string is never part of an escape. */
  text.ptr++, text.len -= 2;
  while (text.len && text.ptr[0] == ' ') text.ptr++, text.len--;
  while (text.len && text.ptr[text.len - 1] == ' ') text.len--;
  if (pdr_easy_requestf(call, "next", room, sizeof room, "{\"arguments\":{\"text\":\"%.*s\"}}",
                        PDR_EASY_JSON(text)))
    return pdr_easy_fail(call, "the note was not kept");
  result = pdr_easy_str(room);
  if (text.len + 2 == length || !pdr_easy_member(result, "output", &output) ||
      !pdr_easy_member(result, "details", &details))
    return pdr_easy_complete(call, PDR_MEDIA_JSON, result.ptr, result.len);
  return pdr_easy_answer_json(call,
                              "{\"output\":%.*s,\"details\":%.*s,\"diagnostics\":[{\"severity\":"
                              "\"info\",\"message\":\"blanks were cut off the note\"}]}",
                              PDR_EASY_JSON(output), PDR_EASY_JSON(details));
}

PDR_EASY_PLUGIN({"note", note}, {"task:" KEEP "@1/wait", wait}, {"task:" KEEP "@1/write", write_note},
                {"section:notes", notes}, {"hook:beforeTool", guard}, {"wrap:tool:note", trim})
