//! Compares the structs and numbers of perdure.rs with those that perdure.h asserts.
//!
//! PERDURE_HEADER names the header, JSON_FOLDER the files of the JSON test suite.
#[path = "../../sdk/rust/perdure.rs"]
mod perdure;

use perdure::abi::*;
use perdure::{cancel, code, flag, media, Json};
use std::collections::BTreeMap;
use std::mem::{size_of, MaybeUninit};
use std::ptr::addr_of;

type Layout = BTreeMap<String, usize>;

/// The size of a struct and the offset of each member, by their names in C.
macro_rules! layout {
    ($to:expr, $c:literal, $type:ty, $($field:ident = $name:literal),*) => {{
        let value = MaybeUninit::<$type>::uninit();
        let base = value.as_ptr();
        $to.insert(concat!($c, ".whole").to_string(), size_of::<$type>());
        $(
            // SAFETY: only addresses inside the value are made, nothing is read.
            let field = unsafe { addr_of!((*base).$field) } as usize;
            $to.insert(concat!($c, ".", $name).to_string(), field - base as usize);
        )*
    }};
}

fn ours() -> Layout {
    let mut all = Layout::new();
    layout!(all, "pdr_str", Str, ptr = "ptr", len = "len");
    layout!(
        all,
        "pdr_blob",
        Blob,
        size = "size",
        flags = "flags",
        ptr = "ptr",
        len = "len",
        media_type = "media_type",
        owner = "owner",
        release = "release"
    );
    layout!(
        all,
        "pdr_err",
        Err,
        size = "size",
        code = "code",
        flags = "flags",
        reserved = "reserved",
        message = "message",
        detail = "detail"
    );
    layout!(
        all,
        "pdr_errbuf",
        ErrBuf,
        size = "size",
        code = "code",
        buf = "buf",
        cap = "cap",
        len = "len"
    );
    layout!(
        all,
        "pdr_host",
        Host,
        size = "size",
        minor = "minor",
        ctx = "ctx",
        query = "query"
    );
    layout!(
        all,
        "pdr_call",
        Call,
        size = "size",
        flags = "flags",
        id = "id",
        parent = "parent",
        target = "target",
        input = "input",
        deadline_ns = "deadline_ns"
    );
    layout!(
        all,
        "pdr_calls_1",
        Calls1,
        size = "size",
        reserved = "reserved",
        ctx = "ctx",
        complete = "complete",
        emit = "emit",
        credit = "credit",
        cancelled = "cancelled",
        on_cancel = "on_cancel"
    );
    layout!(
        all,
        "pdr_invoke_1",
        Invoke1,
        size = "size",
        reserved = "reserved",
        ctx = "ctx",
        start = "start",
        cancel = "cancel"
    );
    layout!(
        all,
        "pdr_plugin",
        Plugin,
        size = "size",
        flags = "flags",
        state = "state",
        query = "query",
        activate = "activate",
        start = "start",
        deactivate = "deactivate",
        destroy = "destroy"
    );
    layout!(all, "pdr_note_desc", NoteDesc, runtime = "runtime");
    layout!(all, "pdr_note", Note, desc = "desc");
    all
}

fn header() -> String {
    let path = std::env::var("PERDURE_HEADER").expect("PERDURE_HEADER names the header");
    std::fs::read_to_string(path).expect("the header can be read")
}

/// What the header asserts: PDR_SIZE_(type, bytes); PDR_AT_(type, member, offset);
fn asserted(header: &str) -> Layout {
    let mut all = Layout::new();
    for line in header.lines() {
        let words = |front: &str| -> Option<Vec<String>> {
            let inside = line.strip_prefix(front)?.strip_suffix(");")?;
            Some(inside.split(", ").map(str::to_string).collect())
        };
        if let Some(words) = words("PDR_SIZE_(") {
            all.insert(format!("{}.whole", words[0]), words[1].parse().unwrap());
        } else if let Some(words) = words("PDR_AT_(") {
            all.insert(
                format!("{}.{}", words[0], words[1]),
                words[2].parse().unwrap(),
            );
        }
    }
    all
}

#[test]
fn the_layout_is_the_one_of_the_header() {
    let asserted = asserted(&header());
    assert!(
        asserted.len() > 50,
        "the assertions of the header were found"
    );
    assert_eq!(ours(), asserted);
}

#[test]
fn the_numbers_and_names_are_those_of_the_header() {
    let header = header();
    let defined = |name: &str| {
        let line = header
            .lines()
            .find(|line| line.starts_with(&format!("#define {name} ")))
            .unwrap_or_else(|| panic!("{name} is in the header"));
        line.split_whitespace()
            .nth(2)
            .unwrap()
            .trim_matches(&['(', ')', '"', 'u'][..])
            .to_string()
    };
    let numbers = [
        ("PDR_ABI_MAJOR", i64::from(ABI_MAJOR)),
        ("PDR_ABI_MINOR", ABI_MINOR.into()),
        ("PDR_MESSAGE_LEVEL", MESSAGE_LEVEL.into()),
        ("PDR_NOTE_TYPE", NOTE_TYPE.into()),
        ("PDR_E_CANCELLED", code::CANCELLED.into()),
        ("PDR_E_TIMEOUT", code::TIMEOUT.into()),
        ("PDR_E_STALE", code::STALE.into()),
        ("PDR_E_GONE", code::GONE.into()),
        ("PDR_E_BUSY", code::BUSY.into()),
        ("PDR_E_WOULD_BLOCK", code::WOULD_BLOCK.into()),
        ("PDR_E_INVALID", code::INVALID.into()),
        ("PDR_E_ENCODING", code::ENCODING.into()),
        ("PDR_E_DENIED", code::DENIED.into()),
        ("PDR_E_UNSUPPORTED", code::UNSUPPORTED.into()),
        ("PDR_E_INTERNAL", code::INTERNAL.into()),
        ("PDR_E_PLUGIN_FAULT", code::PLUGIN_FAULT.into()),
        ("PDR_ERR_RETRYABLE", flag::RETRYABLE.into()),
        ("PDR_ERR_CANCELLED", flag::CANCELLED.into()),
        ("PDR_ERR_TIMEOUT", flag::TIMEOUT.into()),
        ("PDR_ERR_USER_VISIBLE", flag::USER_VISIBLE.into()),
        ("PDR_ERR_PLUGIN_BUG", flag::PLUGIN_BUG.into()),
        ("PDR_CANCEL_ABORT", cancel::ABORT.into()),
        ("PDR_CANCEL_DEADLINE", cancel::DEADLINE.into()),
        ("PDR_CANCEL_CLOSING", cancel::CLOSING.into()),
        ("PDR_CANCEL_DRAIN", cancel::DRAIN.into()),
        ("PDR_CANCEL_PARENT", cancel::PARENT.into()),
        ("PDR_CANCEL_OBSOLETE", cancel::OBSOLETE.into()),
    ];
    for (name, value) in numbers {
        assert_eq!(defined(name), value.to_string(), "{name}");
    }
    let names = [
        ("PDR_CALLS_1", CALLS_1),
        ("PDR_INVOKE_1", INVOKE_1),
        ("PDR_MEDIA_JSON", media::JSON),
        ("PDR_MEDIA_TEXT", media::TEXT),
        ("PDR_MEDIA_BYTES", media::BYTES),
        ("PDR_MEDIA_PNG", media::PNG),
        ("PDR_MEDIA_JPEG", media::JPEG),
        ("PDR_MEDIA_GIF", media::GIF),
        ("PDR_MEDIA_WEBP", media::WEBP),
        ("PDR_MEDIA_PARTS", media::PARTS),
    ];
    for (name, value) in names {
        assert_eq!(defined(name), value, "{name}");
    }
}

#[test]
fn json_takes_what_is_json_and_nothing_else() {
    let folder = std::env::var("JSON_FOLDER").expect("JSON_FOLDER names the test suite");
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("the folder can be read") {
        let path = file.expect("the folder can be read").path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = std::fs::read(&path).expect("the file can be read");
        let parsed = Json::parse(&bytes);
        // A name that occurs twice is JSON, but not at the border.
        let twice = name.starts_with("y_object_duplicated_key");
        if name.starts_with("y_") && !twice {
            let value = parsed
                .as_ref()
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(&Json::parse(value.dump()).unwrap(), value, "{name}");
        } else if name.starts_with("n_") || twice {
            assert!(parsed.is_err(), "{name}");
        }
        count += 1;
    }
    assert!(count > 300, "{count} files");
}

#[test]
fn json_keeps_what_it_reads() {
    let text = r#"{"z":9007199254740993,"a":-0.10,"lone":"\ud83d","pair":"😀","min":-9223372036854775808}"#;
    assert_eq!(Json::parse(text).unwrap().dump(), text);
    assert_eq!(Json::from(0.1).dump(), "0.1");
    assert_eq!(Json::from(u64::MAX).dump(), "18446744073709551615");
    assert_eq!(Json::parse("1e2").unwrap().number().unwrap(), 100.0);
    assert!(Json::parse("[".repeat(200)).is_err());
}
