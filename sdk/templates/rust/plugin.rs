// @NAME@: a plugin for Perdure. What the types do stands in @SDK_FOLDER@/perdure.rs.
#[macro_use]
#[path = "@SDK_FOLDER@/perdure.rs"]
mod perdure;

use perdure::*;

/// The tool: the schema in @NAME@.json has checked that name is a string.
fn greet(call: &Call) -> Result<String> {
    let name = call.argument("name").text()?;
    if name.is_empty() || name.len() > 255 {
        return fail("the name must have from 1 to 255 bytes");
    }
    Ok(format!("Hello, {name}!"))
}
//@if section

/// A section of the prompt: what the model is told beside its tools.
fn section(_: &Call) -> Result<&'static str> {
    Ok("Whoever is greeted is greeted by name.")
}
//@end
//@if guard

/// A guard: is asked before each call of the tool, and may say no. If it fails, the call is denied.
fn guard(call: &Call) -> Result<Json> {
    let arguments = call.input().get("call").get("arguments");
    if arguments.get("name").as_text() == Some("nobody") {
        return Ok(deny("nobody must not be greeted"));
    }
    Ok(pass())
}
//@end
//@if wrap

/// A wrap: runs around the tool, and may change what goes in and what comes out.
fn wrap(call: &Call) -> Result<Json> {
    if call.argument("name").text()? != "world" {
        return call.next(None);
    }
    call.next(Some(object([("name", "World".into())])))
}
//@end
//@if task

const GREETING: &str = "@ID@.greeting";

/// A tool that begins a durable task and waits for it. After a crash the task goes on where it was,
/// and the call, which runs again, finds it.
fn greet_later(call: &Call) -> Result<String> {
    let mut task = Json::Null;
    let committed = call.transaction(|tx| {
        let found = tx.own_tasks(GREETING)?.first().map(|task| task.get("id").clone());
        let input = object([("name", call.argument("name").clone())]);
        task = match found {
            Some(id) => id,
            None => tx.commit.create_task(GREETING, input, "self", object([])).into(),
        };
        Ok(())
    })?;
    if let Some(name) = task.as_text() {
        task = committed.get("ids").get(name).clone();
    }
    let record = call.wait_for_task(task.integer()?)?;
    let result = record.get("state").get("outcome").get("result");
    Ok(result.get("text").text()?.to_string())
}

/// The phases of the task. Each ends with a commit of what comes next; a crash repeats it from its
/// beginning. This one rests for 50 ms, and could for a month: a task that sleeps needs no process.
fn rest(call: &Call) -> Result<Commit> {
    let mut commit = Commit::new();
    commit.state(state::sleeping(
        object([("phase", "greet".into())]),
        call.now()? + 50,
    ));
    Ok(commit)
}

fn greet_at_last(call: &Call) -> Result<Commit> {
    let name = call.task().get("input").get("name").text()?;
    let text = format!("Hello, {name} at last!");
    let mut commit = Commit::new();
    commit.state(state::completed(object([("text", text.into())])));
    Ok(commit)
}
//@end

fn setup(plugin: &mut Plugin) -> Result<()> {
//@if section
    plugin.section("@NAME@", section)?;
//@end
//@if guard
    plugin.hook("beforeTool", guard)?;
//@end
//@if wrap
    plugin.wrap_tool("@NAME@", wrap)?;
//@end
//@if task
    plugin.tool("@NAME@-later", greet_later)?;
    plugin.phase(GREETING, 1, "rest", rest)?;
    plugin.phase(GREETING, 1, "greet", greet_at_last)?;
//@end
    plugin.tool("@NAME@", greet)
}

perdure_plugin!(include_str!("@NAME@.json"), setup);
