// A plugin in Rust with one of each kind: it keeps notes and shows them to the model.
#[macro_use]
#[path = "../../sdk/rust/perdure.rs"]
mod perdure;

use perdure::{array, ask, deny, object, pass, state};
use perdure::{Call, Commit, Json, Place, Plugin, Reply, Result};

const LIST: &str = "example.notes-rust.list";
const KEEP: &str = "example.notes-rust.keep";

/// A tool: says what it does, begins a task that keeps the note, and waits for it.
fn note(call: &Call) -> Result<Json> {
    call.output("keeping the note\n")?;
    // The same after a crash, because the task remembers it.
    let begun = call.memo("begun", call.now()?)?;
    let mut task = Json::Null;
    let committed = call.transaction(|tx| {
        // A call that runs again after a crash finds what it had begun.
        task = match tx.own_tasks(KEEP)?.first() {
            Some(found) => found.get("id").clone(),
            None => {
                let input = object([("text", call.argument("text").clone())]);
                tx.commit
                    .create_task(KEEP, input, "self", object([]))
                    .into()
            }
        };
        Ok(())
    })?;
    if let Some(name) = task.as_text() {
        task = committed.get("ids").get(name).clone();
    }
    call.details(object([("task", task.clone())]))?;

    let record = call.wait_for_task(task.integer()?)?;
    let notes = record
        .get("state")
        .get("outcome")
        .get("result")
        .get("notes")
        .integer()?;
    let text = format!("note {notes} is kept");
    Ok(object([
        (
            "output",
            array([object([("type", "text".into()), ("text", text.into())])]),
        ),
        ("details", object([("task", task), ("begun", begun)])),
    ]))
}

/// The first phase of the task. Each ends with a commit that says what is next.
fn wait(call: &Call) -> Result<Commit> {
    let mut commit = Commit::new();
    commit.state(state::sleeping(
        object([("phase", "write".into())]),
        call.now()? + 50,
    ));
    Ok(commit)
}

fn write(call: &Call) -> Result<Reply> {
    call.transaction(|tx| {
        let mut count = 0;
        if let Some(notes) = tx.draft(LIST, &Place::own())?.member("notes") {
            notes.push(call.task().get("input").get("text").clone());
            count = notes.items().len();
        }
        tx.commit
            .state(state::completed(object([("notes", count.into())])));
        Ok(())
    })?;
    Ok(Reply::nothing())
}

/// A section of the prompt, left out while there are no notes.
fn notes(call: &Call) -> Result<Reply> {
    let document = match call.document(LIST, &Place::own())? {
        Some(document) => document,
        None => return Ok(Reply::nothing()),
    };
    let mut text = "Notes so far:".to_string();
    for note in document.get("notes").items() {
        text += &format!("\n- {}", note.text()?);
    }
    Ok(text.into())
}

/// A guard: refuses secrets, and has somebody asked about what is private.
fn guard(call: &Call) -> Result<Json> {
    let text = call
        .input()
        .get("call")
        .get("arguments")
        .get("text")
        .as_text()
        .unwrap_or("");
    if text.contains("secret") {
        return Ok(deny("secrets do not belong into notes"));
    }
    if text.contains("private") {
        return Ok(ask("private", "Keep a private note?"));
    }
    Ok(pass())
}

/// A wrap: cuts blanks off the argument, and says so.
fn trim(call: &Call) -> Result<Json> {
    let text = call.argument("text").text()?;
    let trimmed = text.trim_matches(' ');
    if trimmed == text {
        return call.next(None);
    }
    let mut result = call.next(Some(object([("text", trimmed.into())])))?;
    let cut = object([
        ("severity", "info".into()),
        ("message", "blanks were cut off the note".into()),
    ]);
    if let Some(diagnostics) = result.member("diagnostics") {
        diagnostics.push(cut);
    }
    Ok(result)
}

fn setup(plugin: &mut Plugin) -> Result<()> {
    plugin.tool("note", note)?;
    plugin.phase(KEEP, 1, "wait", wait)?;
    plugin.phase(KEEP, 1, "write", write)?;
    plugin.section("notes", notes)?;
    plugin.hook("beforeTool", guard)?;
    plugin.wrap_tool("note", trim)
}

perdure_plugin!(
    r#"{
  "manifest": 1, "id": "example.notes-rust", "version": "1.0.0", "runtime": "rust",
  "description": "Keeps notes and shows them to the model.",
  "interfaces": {"required": ["perdure.calls/1", "perdure.invoke/1"]},
  "execution": {"blocking": true}, "permissions": {"approvals": true},
  "tools": [{"name": "note", "description": "Keeps a note for later prompts.", "replay": "safe",
             "parameters": {"type": "object", "required": ["text"],
                            "properties": {"text": {"type": "string"}}}}],
  "sections": [{"key": "notes"}],
  "hooks": [{"point": "beforeTool", "role": "guard", "tools": ["note"]}],
  "wraps": [{"tool": "note"}],
  "tasks": [{"type": "example.notes-rust.keep", "version": 1, "phases": ["wait", "write"],
             "initial": {"phase": "wait"}}],
  "documents": [{"kind": "example.notes-rust.list", "version": 1, "scope": "conversation",
                 "history": "latest", "fork": "current", "initial": {"notes": []},
                 "base": {"deltas": 32}}]
}"#,
    setup
);
