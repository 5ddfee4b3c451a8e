// Handlers that go wrong, and the parts of perdure.rs that the example does not use.
#[macro_use]
#[path = "../../sdk/rust/perdure.rs"]
mod perdure;

use perdure::{code, fail, flag, object, Commit, Error, Json, Place, Plugin, Reply, Result, Value};
use std::thread;

fn setup(plugin: &mut Plugin) -> Result<()> {
    plugin.tool("fail", |_| -> Result<Json> {
        let mut error = Error::new(code::BUSY, "not now");
        error.flags = flag::RETRYABLE;
        error.detail = object([("reason", "limit".into())]);
        Err(error)
    })?;
    plugin.tool("visible", |_| -> Result<Json> {
        fail("the file is not there")
    })?;
    plugin.tool("standard", |_| -> Result<Json> {
        Err(std::io::Error::new(std::io::ErrorKind::Other, "no luck"))?
    })?;
    plugin.tool("throw", |_| -> Result<Json> { panic!("five") })?;
    plugin.tool("drop", |_| Ok(Reply::Later))?;
    plugin.tool("later", |call| {
        let call = call.clone();
        thread::spawn(move || {
            call.log("info", "on another thread");
            call.answer("from another thread");
        });
        Ok(Reply::Later)
    })?;
    plugin.tool("chain", |call| {
        let own = call.clone();
        call.memo_then("m", 7, move |memo| {
            let value = memo?;
            let next = own.clone();
            own.document_then("test.probe.list", &Place::own(), move |document| {
                let found = document?.map_or("no document", |_| "a document");
                let next2 = next.clone();
                next.wait_then(1, move |_| {
                    let last = next2.clone();
                    next2
                        .commit_then(&Commit::new(), move |result| {
                            let ids = match result?.get("ids") {
                                Json::Object(ids) => ids.len(),
                                _ => 99,
                            };
                            last.answer(format!("{}, {found}, {ids} ids", value.dump()));
                            Ok(())
                        })
                        .map(drop)
                })
                .map(drop)
            })
            .map(drop)
        })?;
        Ok(Reply::Later)
    })?;
    plugin.tool("chainfail", |call| {
        call.next_then(None, |_| fail("the continuation fails"))?;
        Ok(Reply::Later)
    })?;
    plugin.tool("nowait", |call| call.memo("m", 1))?;
    plugin.tool("conflict", |call| {
        let mut runs = 0;
        let result = call.transaction(|tx| {
            runs += 1;
            tx.own_tasks("none").map(drop)
        });
        match result {
            Ok(_) => Ok(format!("{runs} runs")),
            Err(error) => fail(format!("{runs} runs: {}", error.reason())),
        }
    })?;
    plugin.tool("rewrite", |call| {
        call.transaction(|tx| {
            tx.commit.step(object([("do", "x".into())]));
            tx.own_tasks("none").map(drop)
        })
    })?;
    plugin.tool("txthrow", |call| {
        call.transaction(|_| fail("the body fails"))
    })?;
    plugin.tool("output", |call| {
        let text = "x".to_string() + &"\u{e9}".repeat(66000);
        call.output(&text)?;
        call.output_bytes(&[0xFF; 70000])?;
        call.diagnostic("warn", "careful")?;
        Ok("done")
    })?;
    plugin.tool("long", |_| Ok("y".repeat(100000)))?;
    plugin.tool("emitted", |call| {
        call.output("all")?;
        Ok(Reply::Emitted)
    })?;
    plugin.tool("stream", |call| {
        let mut seen = String::new();
        let mut stream = call.stream("test.stream", object([]))?;
        for item in &mut stream {
            seen += &format!("{} ", item?.dump());
        }
        seen += &stream.end().map_or(String::new(), Json::dump);
        call.stream("test.stream", object([]))?;
        Ok(seen)
    })?;
    plugin.tool("parts", |call| {
        let json = object([("bytes", object([("part", 1.into())]))]);
        let value = Value::with_parts(&json, &[b"abc", b"0123456789"]);
        call.request("test.parts", value)?.json()
    })?;
    plugin.tool("bytes", |call| {
        let bytes = call.request("random", object([("bytes", 3.into())]))?.bytes;
        Ok(format!("{} bytes", bytes.len()))
    })?;
    plugin.tool("unknown", |call| call.invoke("no.such", object([])))?;
    plugin.tool("echo", |call| Ok(call.arguments().clone()))?;
    plugin.tool("cancel", |call| {
        let own = call.clone();
        call.on_cancel(move |reason| {
            own.answer(format!("cancelled for {reason}, {}", own.cancelled()));
        });
        Ok(Reply::Later)
    })?;
    let host = plugin.host();
    plugin.on_activate(move || {
        host.log("info", "activated");
        Ok(())
    });
    plugin.on_deactivate(|stop| {
        thread::spawn(move || stop.stopped());
        Ok(())
    });
    Ok(())
}

perdure_plugin!(
    r#"{"manifest": 1, "id": "test.probe", "version": "1.0.0", "runtime": "rust",
  "execution": {"blocking": true}, "tools": [
  {"name": "fail", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "visible", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "standard", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "throw", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "drop", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "later", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "chain", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "chainfail", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "nowait", "blocking": false, "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "conflict", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "rewrite", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "txthrow", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "output", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "long", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "emitted", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "stream", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "parts", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "bytes", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "unknown", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "echo", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "cancel", "description": "Tries.", "parameters": {"type": "object"}}],
  "documents": [{"kind": "test.probe.list", "version": 1, "scope": "session", "initial": {},
                 "base": "always"}]}"#,
    setup
);
