// perdure.rs - plugins in Rust on top of the contract in perdure.h, in this file alone. MIT licence.
//
// Edition 2021, Rust 1.63 or later, no dependencies. Put it beside your source:
//
//   #[macro_use]
//   mod perdure;
//   use perdure::{Plugin, Result};
//
//   fn setup(plugin: &mut Plugin) -> Result<()> {
//       plugin.tool("greet", |call| Ok(format!("Hello, {}!", call.argument("name").text()?)))
//   }
//
//   perdure_plugin!(r#"{"manifest": 1, "id": "acme.greet", "version": "1.0.0", "runtime": "rust",
//     "tools": [{"name": "greet", "description": "Greets.", "replay": "safe",
//                "parameters": {"type": "object", "required": ["name"],
//                               "properties": {"name": {"type": "string"}}}}]}"#, setup);
//
//   rustc --edition 2021 --crate-type cdylib -O -o greet.so greet.rs
//
// What is in the messages (targets, operations, members) is said in docs/plugins.md; everything below
// that is called like an operation is that operation.
//
// Rules
//  - Nothing unwinds into the host: a handler that panics fails its call, so build with the default
//    panic=unwind. An Err fails the call as it is.
//  - A handler answers with what it returns; Reply::Later says that a copy of its Call answers, from
//    any thread. A call whose last copy goes without an answer fails.
//  - Operations have two forms. The plain one waits: it is for handlers whose manifest element says
//    "blocking": true, and for threads of the plugin; elsewhere it fails at once. The one that ends
//    in _then never waits; its continuation runs on a thread of the host and must not block, and an
//    Err of it fails the call.
//  - Handlers run beside each other on several threads, up to the manifest's maxConcurrency.
//  - Every value is owned; nothing points into memory of the host.
#![allow(dead_code)]

use std::any::Any;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ffi::c_void;
use std::fmt;
use std::mem::size_of;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// The contract itself, as in perdure.h, whose comments say what each function promises.
pub mod abi {
    use std::ffi::c_void;

    pub const ABI_MAJOR: u32 = 1;
    pub const ABI_MINOR: u32 = 0;
    pub const MESSAGE_LEVEL: u32 = 1;
    pub const NOTE_TYPE: u32 = 1;
    pub const CALLS_1: &str = "perdure.calls/1";
    pub const INVOKE_1: &str = "perdure.invoke/1";
    pub const ABSENT: usize = usize::MAX;
    pub const MUST_UNDERSTAND: u32 = 0xFFFF_0000;

    #[repr(C)]
    #[derive(Clone, Copy)]
    pub struct Str {
        pub ptr: *const u8,
        pub len: usize,
    }

    #[repr(C)]
    pub struct Blob {
        pub size: u32,
        pub flags: u32,
        pub ptr: *const u8,
        pub len: usize,
        pub media_type: Str,
        pub owner: *mut c_void,
        pub release: Option<unsafe extern "C" fn(*mut c_void)>,
    }

    #[repr(C)]
    pub struct Err {
        pub size: u32,
        pub code: i32,
        pub flags: u32,
        pub reserved: u32,
        pub message: Str,
        pub detail: Str,
    }

    #[repr(C)]
    pub struct ErrBuf {
        pub size: u32,
        pub code: i32,
        pub buf: *mut u8,
        pub cap: usize,
        pub len: usize,
    }

    #[repr(C)]
    pub struct Host {
        pub size: u32,
        pub minor: u32,
        pub ctx: *mut c_void,
        pub query: Option<unsafe extern "C" fn(*mut c_void, Str, u32) -> *const c_void>,
    }

    #[repr(C)]
    pub struct Call {
        pub size: u32,
        pub flags: u32,
        pub id: u64,
        pub parent: u64,
        pub target: Str,
        pub input: *const Blob,
        pub deadline_ns: u64,
    }

    pub type Done = unsafe extern "C" fn(*mut c_void, u64, i32, *const Blob, *const Err);
    pub type CancelFn = unsafe extern "C" fn(*mut c_void, u64, u32);

    #[repr(C)]
    pub struct Calls1 {
        pub size: u32,
        pub reserved: u32,
        pub ctx: *mut c_void,
        pub complete: unsafe extern "C" fn(*mut c_void, u64, i32, *const Blob, *const Err) -> i32,
        pub emit: unsafe extern "C" fn(*mut c_void, u64, *const Blob) -> i32,
        pub credit: unsafe extern "C" fn(*mut c_void, u64, *mut u64) -> i32,
        pub cancelled: unsafe extern "C" fn(*mut c_void, u64) -> u32,
        pub on_cancel: unsafe extern "C" fn(*mut c_void, u64, Option<CancelFn>, *mut c_void) -> i32,
    }

    #[repr(C)]
    pub struct Invoke1 {
        pub size: u32,
        pub reserved: u32,
        pub ctx: *mut c_void,
        pub start: unsafe extern "C" fn(
            *mut c_void,
            u64,
            Str,
            *const Blob,
            Option<Done>,
            *mut c_void,
            *mut u64,
        ) -> i32,
        pub cancel: unsafe extern "C" fn(*mut c_void, u64) -> i32,
    }

    #[repr(C)]
    pub struct Plugin {
        pub size: u32,
        pub flags: u32,
        pub state: *mut c_void,
        pub query: Option<unsafe extern "C" fn(*mut c_void, Str, u32) -> *const c_void>,
        pub activate: Option<unsafe extern "C" fn(*mut c_void, *mut ErrBuf) -> i32>,
        pub start: Option<unsafe extern "C" fn(*mut c_void, *const Call) -> i32>,
        pub deactivate: Option<unsafe extern "C" fn(*mut c_void, u64, u64) -> i32>,
        pub destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    }

    #[repr(C)]
    pub struct NoteDesc {
        pub size: u32,
        pub abi_major: u32,
        pub host_minor: u32,
        pub message_level: u32,
        pub flags: u32,
        pub runtime: [u8; 32],
    }

    #[repr(C)]
    pub struct Note {
        pub name_size: u32,
        pub desc_size: u32,
        pub kind: u32,
        pub name: [u8; 8],
        pub desc: NoteDesc,
    }

    /// The note of a plugin in Rust.
    pub const fn note() -> Note {
        let mut runtime = [0; 32];
        let name = b"rust";
        let mut i = 0;
        while i < name.len() {
            runtime[i] = name[i];
            i += 1;
        }
        Note {
            name_size: 8,
            desc_size: std::mem::size_of::<NoteDesc>() as u32,
            kind: NOTE_TYPE,
            name: *b"Perdure\0",
            desc: NoteDesc {
                size: std::mem::size_of::<NoteDesc>() as u32,
                abi_major: ABI_MAJOR,
                host_minor: 0,
                message_level: MESSAGE_LEVEL,
                flags: 0,
                runtime,
            },
        }
    }

    /// The bytes of a text, for a section.
    pub const fn bytes<const N: usize>(text: &str) -> [u8; N] {
        let from = text.as_bytes();
        let mut to = [0; N];
        let mut i = 0;
        while i < N {
            to[i] = from[i];
            i += 1;
        }
        to
    }
}

/// What went wrong, by its code.
pub mod code {
    pub const CANCELLED: i32 = -1;
    pub const TIMEOUT: i32 = -2;
    pub const STALE: i32 = -3;
    pub const GONE: i32 = -4;
    pub const BUSY: i32 = -5;
    pub const WOULD_BLOCK: i32 = -6;
    pub const INVALID: i32 = -7;
    pub const ENCODING: i32 = -8;
    pub const DENIED: i32 = -9;
    pub const UNSUPPORTED: i32 = -10;
    pub const INTERNAL: i32 = -11;
    pub const PLUGIN_FAULT: i32 = -12;
}

/// Flags of an error.
pub mod flag {
    pub const RETRYABLE: u32 = 1;
    pub const CANCELLED: u32 = 2;
    pub const TIMEOUT: u32 = 4;
    pub const USER_VISIBLE: u32 = 8;
    pub const PLUGIN_BUG: u32 = 16;
}

/// Why a call is cancelled.
pub mod cancel {
    pub const ABORT: u32 = 1;
    pub const DEADLINE: u32 = 2;
    pub const CLOSING: u32 = 3;
    pub const DRAIN: u32 = 4;
    pub const PARENT: u32 = 5;
    pub const OBSOLETE: u32 = 6;
}

/// Media types; an empty one means JSON.
pub mod media {
    pub const JSON: &str = "application/json";
    pub const TEXT: &str = "text/plain";
    pub const BYTES: &str = "application/octet-stream";
    pub const PNG: &str = "image/png";
    pub const JPEG: &str = "image/jpeg";
    pub const GIF: &str = "image/gif";
    pub const WEBP: &str = "image/webp";
    pub const PARTS: &str = "application/vnd.perdure.parts";
}

// ------------------------------------------------------------------------------------ errors

/// What every function here that can fail gives.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, on its way from the host to the plugin or back.
///
/// It is made of any `std::error::Error` by `?`, as an internal error that only the operator reads.
#[derive(Clone, Debug)]
pub struct Error {
    /// One of `code`.
    pub code: i32,
    /// Of `flag`.
    pub flags: u32,
    /// One sentence: what, where, what to do.
    pub message: String,
    /// An object, or null.
    pub detail: Json,
}

impl Error {
    /// An error that only the operator reads; the code is one of `code`.
    pub fn new(code: i32, message: impl Into<String>) -> Error {
        Error {
            code,
            flags: 0,
            message: message.into(),
            detail: Json::Null,
        }
    }
    /// An error whose sentence the model may read.
    pub fn visible(message: impl Into<String>) -> Error {
        Error {
            flags: flag::USER_VISIBLE,
            ..Error::new(code::INTERNAL, message)
        }
    }
    fn with(code: i32, message: impl Into<String>, reason: &str) -> Error {
        Error {
            detail: object([("reason", reason.into())]),
            ..Error::new(code, message)
        }
    }
    /// What happened precisely, such as "conflict"; empty if nobody said.
    pub fn reason(&self) -> &str {
        match self.detail.get("reason") {
            Json::Text(reason) => reason,
            _ => "",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Error {
        Error::new(code::INTERNAL, format!("the plugin failed: {error}"))
    }
}

/// Fails with a sentence that the model may read: `return fail("the file is not there")`.
pub fn fail<T>(sentence: impl Into<String>) -> Result<T> {
    Err(Error::visible(sentence))
}

// ------------------------------------------------------------------------------------ JSON

/// One JSON value. Members keep their order, and integers are exact.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// null
    Null,
    /// true or false
    Bool(bool),
    /// A whole number in the range of i64.
    Int(i64),
    /// Any other number, as it is written.
    Number(String),
    /// A text that is UTF-8.
    Text(String),
    /// A text with lone surrogates, which UTF-8 has not: each is the three bytes of its number.
    Wtf8(Vec<u8>),
    /// Items in their order.
    Array(Vec<Json>),
    /// Of names that occur once.
    Object(Vec<(String, Json)>),
}

static NULL: Json = Json::Null;

/// Makes an object: `object([("a", 1.into()), ("b", "x".into())])`.
pub fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(
        members
            .into_iter()
            .map(|(name, value)| (name.to_string(), value))
            .collect(),
    )
}

/// Makes an array: `array(["x".into(), 1.into()])`.
pub fn array(items: impl IntoIterator<Item = Json>) -> Json {
    Json::Array(items.into_iter().collect())
}

impl Json {
    /// How deep a text may be nested.
    pub const MAX_DEPTH: usize = 128;

    /// Reads one value; fails with ENCODING and the byte at which the text is wrong: no strict JSON,
    /// a name twice in an object, no UTF-8, or too deep.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Json> {
        let mut reader = Reader {
            text: text.as_ref(),
            at: 0,
        };
        let value = reader.value(0)?;
        reader.blanks();
        if reader.at == reader.text.len() {
            Ok(value)
        } else {
            reader.fail("text behind the value")
        }
    }
    /// The value as JSON without blanks.
    pub fn dump(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }
    /// The member, or a null if there is none or this is no object.
    pub fn get(&self, name: &str) -> &Json {
        self.find(name).unwrap_or(&NULL)
    }
    /// The member, if there is one.
    pub fn find(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|m| m.0 == name).map(|m| &m.1),
            _ => None,
        }
    }
    /// Sets a member; what is no object becomes one first.
    pub fn set(&mut self, name: &str, value: impl Into<Json>) -> &mut Json {
        if !matches!(self, Json::Object(_)) {
            *self = Json::Object(Vec::new());
        }
        if let Json::Object(members) = self {
            match members.iter_mut().find(|m| m.0 == name) {
                Some(member) => member.1 = value.into(),
                None => members.push((name.to_string(), value.into())),
            }
        }
        self
    }
    /// The member to change; made as a null if there is none.
    pub fn member(&mut self, name: &str) -> Option<&mut Json> {
        if self.find(name).is_none() {
            self.set(name, Json::Null);
        }
        match self {
            Json::Object(members) => members.iter_mut().find(|m| m.0 == name).map(|m| &mut m.1),
            _ => None,
        }
    }
    /// The same with one member more, for building.
    pub fn with(mut self, name: &str, value: impl Into<Json>) -> Json {
        self.set(name, value);
        self
    }
    /// Appends an item; what is no array becomes one first.
    pub fn push(&mut self, item: impl Into<Json>) {
        if !matches!(self, Json::Array(_)) {
            *self = Json::Array(Vec::new());
        }
        if let Json::Array(items) = self {
            items.push(item.into());
        }
    }
    /// The items of an array; none for other kinds.
    pub fn items(&self) -> &[Json] {
        match self {
            Json::Array(items) => items,
            _ => &[],
        }
    }
    /// Whether this is null, as what get gives for a member that does not exist.
    pub fn is_null(&self) -> bool {
        matches!(self, Json::Null)
    }
    /// The value as this type; fails with INVALID if it has another.
    pub fn text(&self) -> Result<&str> {
        self.as_text().ok_or_else(|| Json::is_not("a text"))
    }
    /// The whole number; fails with INVALID for anything else.
    pub fn integer(&self) -> Result<i64> {
        self.as_integer().ok_or_else(|| Json::is_not("an integer"))
    }
    /// The truth value; fails with INVALID for anything else.
    pub fn boolean(&self) -> Result<bool> {
        self.as_boolean()
            .ok_or_else(|| Json::is_not("true or false"))
    }
    /// The number, also a whole one, as the nearest f64; fails with INVALID for anything else.
    pub fn number(&self) -> Result<f64> {
        match self {
            Json::Int(value) => Ok(*value as f64),
            Json::Number(text) => Ok(text.parse()?),
            _ => Err(Json::is_not("a number")),
        }
    }
    /// The value as this type, if it is of it.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }
    /// The whole number, if it is one.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Json::Int(value) => Some(*value),
            _ => None,
        }
    }
    /// The truth value, if it is one.
    pub fn as_boolean(&self) -> Option<bool> {
        match self {
            Json::Bool(value) => Some(*value),
            _ => None,
        }
    }
    fn is_not(what: &str) -> Error {
        Error::with(code::INVALID, format!("a value is not {what}"), "shape")
    }

    fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Int(value) => out.push_str(&value.to_string()),
            Json::Number(text) => out.push_str(text),
            Json::Text(text) => write_text(out, text.as_bytes()),
            Json::Wtf8(bytes) => write_text(out, bytes),
            Json::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (i, (name, value)) in members.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    write_text(out, name.as_bytes());
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// Writes a text with its escapes; bytes that are neither UTF-8 nor surrogates become U+FFFD.
fn write_text(out: &mut String, mut bytes: &[u8]) {
    out.push('"');
    while let Some(first) = bytes.first() {
        if let [0xED, second @ 0xA0..=0xBF, third @ 0x80..=0xBF, ..] = bytes {
            let unit = 0xD000 | u32::from(second & 0x3F) << 6 | u32::from(third & 0x3F);
            out.push_str(&format!("\\u{unit:04x}"));
            bytes = &bytes[3..];
            continue;
        }
        let size = utf8_size(bytes);
        match first {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(*first));
            }
            0..=0x1F => out.push_str(&format!("\\u{first:04x}")),
            _ => match std::str::from_utf8(&bytes[..size.max(1)]) {
                Ok(text) => out.push_str(text),
                Err(_) => out.push('\u{FFFD}'),
            },
        }
        bytes = &bytes[size.max(1)..];
    }
    out.push('"');
}

/// How many bytes the character in front has, 0 if it is not UTF-8.
fn utf8_size(bytes: &[u8]) -> usize {
    let size = match bytes.first() {
        Some(0..=0x7F) => 1,
        Some(0xC2..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xF4) => 4,
        _ => return 0,
    };
    match bytes.get(..size) {
        Some(character) if std::str::from_utf8(character).is_ok() => size,
        _ => 0,
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}
impl From<i32> for Json {
    fn from(value: i32) -> Json {
        Json::Int(value.into())
    }
}
impl From<u32> for Json {
    fn from(value: u32) -> Json {
        Json::Int(value.into())
    }
}
impl From<i64> for Json {
    fn from(value: i64) -> Json {
        Json::Int(value)
    }
}
impl From<u64> for Json {
    fn from(value: u64) -> Json {
        i64::try_from(value).map_or_else(|_| Json::Number(value.to_string()), Json::Int)
    }
}
impl From<usize> for Json {
    fn from(value: usize) -> Json {
        Json::from(value as u64)
    }
}
impl From<f64> for Json {
    /// JSON has no infinite number and no NaN; both become null.
    fn from(value: f64) -> Json {
        if value.is_finite() {
            Json::Number(format!("{value:?}"))
        } else {
            Json::Null
        }
    }
}
impl From<&str> for Json {
    fn from(value: &str) -> Json {
        Json::Text(value.to_string())
    }
}
impl From<String> for Json {
    fn from(value: String) -> Json {
        Json::Text(value)
    }
}
impl<T: Into<Json>> From<Vec<T>> for Json {
    fn from(value: Vec<T>) -> Json {
        array(value.into_iter().map(Into::into))
    }
}
impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Json {
        value.map_or(Json::Null, Into::into)
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn fail<T>(&self, what: &str) -> Result<T> {
        Err(Error::with(
            code::ENCODING,
            format!("not JSON: {what} at byte {}", self.at),
            "json",
        ))
    }
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }
    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }
    fn value(&mut self, depth: usize) -> Result<Json> {
        if depth > Json::MAX_DEPTH {
            return self.fail("nested too deeply");
        }
        self.blanks();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => {
                let bytes = self.quoted()?;
                Ok(String::from_utf8(bytes)
                    .map_or_else(|error| Json::Wtf8(error.into_bytes()), Json::Text))
            }
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            _ => self.number(),
        }
    }
    fn word(&mut self, name: &str, value: Json) -> Result<Json> {
        if !self.text[self.at..].starts_with(name.as_bytes()) {
            return self.fail("an unknown word");
        }
        self.at += name.len();
        Ok(value)
    }
    fn object(&mut self, depth: usize) -> Result<Json> {
        let mut members: Vec<(String, Json)> = Vec::new();
        self.at += 1;
        self.blanks();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.blanks();
            let name = match String::from_utf8(self.quoted()?) {
                Ok(name) => name,
                Err(_) => return self.fail("a lone surrogate in a name"),
            };
            self.blanks();
            if !self.take(b':') {
                return self.fail("no colon");
            }
            let value = self.value(depth + 1)?;
            members.push((name, value));
            self.blanks();
            if !self.take(b',') {
                break;
            }
        }
        if !self.take(b'}') {
            return self.fail("an object that does not end");
        }
        let mut seen = HashSet::new();
        if !members.iter().all(|member| seen.insert(member.0.as_str())) {
            return self.fail("a name twice");
        }
        Ok(Json::Object(members))
    }
    fn array(&mut self, depth: usize) -> Result<Json> {
        let mut items = Vec::new();
        self.at += 1;
        self.blanks();
        if self.take(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.blanks();
            if !self.take(b',') {
                break;
            }
        }
        if !self.take(b']') {
            return self.fail("an array that does not end");
        }
        Ok(Json::Array(items))
    }
    fn digits(&mut self) -> bool {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at > start
    }
    fn number(&mut self) -> Result<Json> {
        let start = self.at;
        let mut whole = true;
        self.take(b'-');
        if !self.take(b'0') && !self.digits() {
            return self.fail("no value");
        }
        if self.take(b'.') {
            whole = false;
            if !self.digits() {
                return self.fail("no digits behind the point");
            }
        }
        if self.take(b'e') || self.take(b'E') {
            whole = false;
            if !self.take(b'+') {
                self.take(b'-');
            }
            if !self.digits() {
                return self.fail("no digits in the exponent");
            }
        }
        let token = String::from_utf8_lossy(&self.text[start..self.at]).into_owned();
        if whole && token != "-0" {
            if let Ok(value) = token.parse() {
                return Ok(Json::Int(value));
            }
        }
        Ok(Json::Number(token))
    }
    fn unit(&mut self) -> Result<u32> {
        let mut sum = 0;
        for _ in 0..4 {
            match self.peek().and_then(|byte| char::from(byte).to_digit(16)) {
                Some(digit) => sum = sum << 4 | digit,
                None => return self.fail("no hexadecimal digit"),
            }
            self.at += 1;
        }
        Ok(sum)
    }
    fn escape(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let byte = self.peek();
        self.at += 1;
        match byte {
            Some(byte @ (b'"' | b'\\' | b'/')) => out.push(byte),
            Some(b'n') => out.push(b'\n'),
            Some(b't') => out.push(b'\t'),
            Some(b'r') => out.push(b'\r'),
            Some(b'b') => out.push(8),
            Some(b'f') => out.push(12),
            Some(b'u') => {
                let mut scalar = self.unit()?;
                if (0xD800..0xDC00).contains(&scalar) && self.text[self.at..].starts_with(b"\\u") {
                    let back = self.at;
                    self.at += 2;
                    let low = self.unit()?;
                    if (0xDC00..0xE000).contains(&low) {
                        scalar = 0x10000 + ((scalar - 0xD800) << 10) + (low - 0xDC00);
                    } else {
                        self.at = back;
                    }
                }
                match char::from_u32(scalar) {
                    Some(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                    None => out.extend_from_slice(&[
                        0xED,
                        0x80 | (scalar >> 6 & 0x3F) as u8,
                        0x80 | (scalar & 0x3F) as u8,
                    ]),
                }
            }
            _ => return self.fail("an unknown escape"),
        }
        Ok(())
    }
    fn quoted(&mut self) -> Result<Vec<u8>> {
        if !self.take(b'"') {
            return self.fail("no text");
        }
        let mut out = Vec::new();
        loop {
            match self.peek() {
                None => return self.fail("a text that does not end"),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut out)?;
                }
                Some(0..=0x1F) => return self.fail("a control character in a text"),
                Some(_) => {
                    let size = utf8_size(&self.text[self.at..]);
                    if size == 0 {
                        return self.fail("a byte that is no UTF-8");
                    }
                    out.extend_from_slice(&self.text[self.at..self.at + size]);
                    self.at += size;
                }
            }
        }
    }
}

// ------------------------------------------------------------------------------------ messages

/// Bytes with a media type, copied out of the host's memory.
#[derive(Clone, Debug)]
pub struct Value {
    pub media_type: String,
    pub bytes: Vec<u8>,
}

impl Value {
    /// The value as JSON; fails with ENCODING if it is something else.
    pub fn json(&self) -> Result<Json> {
        match self.media_type.as_str() {
            "" | media::JSON if self.bytes.is_empty() => Ok(object([])),
            "" | media::JSON => Json::parse(&self.bytes),
            other => {
                let message = format!("a value is {other} and not JSON");
                Err(Error::with(code::ENCODING, message, "media_type"))
            }
        }
    }
    /// Bytes with a media type of their own, or JSON that another library wrote.
    pub fn raw(media_type: &str, bytes: impl Into<Vec<u8>>) -> Value {
        Value {
            media_type: media_type.to_string(),
            bytes: bytes.into(),
        }
    }
    /// JSON with bytes beside it: `{"part": 1}` in the JSON is the first of them.
    pub fn with_parts(json: &Json, parts: &[&[u8]]) -> Value {
        let text = json.dump();
        let mut all: Vec<&[u8]> = vec![text.as_bytes()];
        all.extend_from_slice(parts);
        let mut out = b"PDRP".to_vec();
        for number in [1, all.len() as u32, 0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for part in &all {
            out.extend_from_slice(&(part.len() as u64).to_le_bytes());
        }
        for part in all {
            out.extend_from_slice(part);
            out.resize((out.len() + 7) / 8 * 8, 0);
        }
        Value::raw(media::PARTS, out)
    }
}

impl From<Json> for Value {
    fn from(json: Json) -> Value {
        Value::raw(media::JSON, json.dump())
    }
}

/// What a handler answers with.
pub enum Reply {
    /// JSON of the completion that the target asks for, text, or an image.
    Value(Value),
    /// The output that a tool emitted is its result.
    Emitted,
    /// A copy of the call answers, later or already.
    Later,
}

impl Reply {
    /// Nothing to add: {}.
    pub fn nothing() -> Reply {
        object([]).into()
    }
}
impl From<Json> for Reply {
    fn from(json: Json) -> Reply {
        Reply::Value(json.into())
    }
}
impl From<String> for Reply {
    fn from(text: String) -> Reply {
        Reply::Value(Value::raw(media::TEXT, text))
    }
}
impl From<&str> for Reply {
    fn from(text: &str) -> Reply {
        text.to_string().into()
    }
}
impl From<Value> for Reply {
    fn from(value: Value) -> Reply {
        Reply::Value(value)
    }
}
impl From<Commit> for Reply {
    fn from(commit: Commit) -> Reply {
        commit.json().into()
    }
}

/// The completion of a guard that refuses; the reason is told to the model.
pub fn deny(reason: impl Into<String>) -> Json {
    object([("deny", object([("reason", reason.into().into())]))])
}

/// The completion of a guard of beforeTool that wants somebody to be asked. The call is over then;
/// the guard runs again when there is an answer.
pub fn ask(key: &str, title: &str) -> Json {
    object([(
        "ask",
        object([("key", key.into()), ("title", title.into())]),
    )])
}

/// The completion of a hook that has nothing to say.
pub fn pass() -> Json {
    object([])
}

/// What is to happen with a task when its phase is over, for `Commit::state`.
pub mod state {
    use super::{array, object, Json};

    /// The next phase is that of the checkpoint; the invocation goes on.
    pub fn running(checkpoint: Json) -> Json {
        object([("status", "running".into()), ("checkpoint", checkpoint)])
    }
    /// Until a time in milliseconds since 1970.
    pub fn sleeping(checkpoint: Json, until: i64) -> Json {
        object([
            ("status", "sleeping".into()),
            ("checkpoint", checkpoint),
            ("until", until.into()),
        ])
    }
    /// Tasks are ids, or names of steps of the same commit; the policy is failFast or allSettled.
    pub fn waiting(checkpoint: Json, on: Vec<Json>, policy: &str) -> Json {
        object([
            ("status", "waiting".into()),
            ("checkpoint", checkpoint),
            ("on", array(on)),
            ("policy", policy.into()),
        ])
    }
    /// The task is over, with a result.
    pub fn completed(result: Json) -> Json {
        ended(object([("status", "completed".into()), ("result", result)]))
    }
    /// The task is over, because of this.
    pub fn failed(message: &str) -> Json {
        let error = object([("message", message.into())]);
        ended(object([("status", "failed".into()), ("error", error)]))
    }
    /// The task is over, because somebody wanted that.
    pub fn aborted() -> Json {
        ended(object([("status", "aborted".into())]))
    }
    /// The task is over, with any outcome.
    pub fn ended(outcome: Json) -> Json {
        object([("status", "terminal".into()), ("outcome", outcome)])
    }
}

/// Whose document is meant; by default the one of the call's own conversation or task.
#[derive(Clone, Debug, Default)]
pub struct Place {
    pub of: Option<Json>,
    pub key: Option<String>,
}

impl Place {
    /// The call's own conversation or task, as the manifest says for the kind.
    pub fn own() -> Place {
        Place::default()
    }
    /// The whole store, for kinds of that scope.
    pub fn session() -> Place {
        Place {
            of: Some("session".into()),
            key: None,
        }
    }
    /// A conversation, for kinds of that scope.
    pub fn conversation(id: i64) -> Place {
        Place {
            of: Some(object([("conversation", id.into())])),
            key: None,
        }
    }
    /// A task, for kinds of that scope.
    pub fn task(id: i64) -> Place {
        Place {
            of: Some(object([("task", id.into())])),
            key: None,
        }
    }
    /// The same place with a key, for kinds that are keyed.
    pub fn with_key(self, key: &str) -> Place {
        Place {
            key: Some(key.to_string()),
            ..self
        }
    }
    fn json(&self, kind: &str) -> Json {
        let mut json = object([("kind", kind.into())]);
        if let Some(of) = &self.of {
            json.set("of", of.clone());
        }
        if let Some(key) = &self.key {
            json.set("key", key.as_str());
        }
        json
    }
}

/// The steps of one commit, which all happen or none does.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    steps: Vec<Json>,
    state: Option<Json>,
    created: usize,
}

impl Commit {
    /// A commit without steps and state.
    pub fn new() -> Commit {
        Commit::default()
    }
    /// Adds any step, such as `{"do": "entry.append", …}`.
    pub fn step(&mut self, step: Json) -> &mut Commit {
        self.steps.push(step);
        self
    }
    /// Adds a step that creates something, and gives its name: the id to use inside this commit, and
    /// the key of the id among the "ids" of the result.
    pub fn create(&mut self, step: Json) -> String {
        self.created += 1;
        let name = format!("s{}", self.created);
        self.steps.push(step.with("as", name.as_str()));
        name
    }
    /// Creates a task. The owner is "self", "conversation" or an id; more members go into options.
    pub fn create_task(
        &mut self,
        kind: &str,
        input: Json,
        owner: impl Into<Json>,
        options: Json,
    ) -> String {
        let mut step = object([
            ("do", "task.create".into()),
            ("type", kind.into()),
            ("input", input),
            ("owner", owner.into()),
        ]);
        if let Json::Object(members) = options {
            for (name, value) in members {
                step.set(&name, value);
            }
        }
        self.create(step)
    }
    /// Creates a conversation. The owner is "self", an id or null.
    pub fn create_conversation(&mut self, owner: impl Into<Json>, agent: Json) -> String {
        self.create(object([
            ("do", "conversation.create".into()),
            ("owner", owner.into()),
            ("agent", agent),
        ]))
    }
    fn document(&mut self, verb: &str, kind: &str, place: &Place) -> Json {
        let mut step = object([("do", verb.into())]);
        if let Json::Object(members) = place.json(kind) {
            for (name, value) in members {
                step.set(&name, value);
            }
        }
        step
    }
    /// Makes a document have this value.
    pub fn write(&mut self, kind: &str, value: Json, place: &Place) -> &mut Commit {
        let step = self.document("doc", kind, place).with("value", value);
        self.step(step)
    }
    /// Changes a document by operations; needs no read before it.
    pub fn apply(&mut self, kind: &str, operations: Vec<Json>, place: &Place) -> &mut Commit {
        let step = self.document("doc", kind, place).with("ops", operations);
        self.step(step)
    }
    /// Puts items into an array of a document, in front of the item at index.
    pub fn insert(
        &mut self,
        kind: &str,
        path: Vec<Json>,
        index: usize,
        items: Vec<Json>,
        place: &Place,
    ) -> &mut Commit {
        let splice = array([
            "p".into(),
            path.into(),
            index.into(),
            0.into(),
            items.into(),
        ]);
        self.apply(kind, vec![splice], place)
    }
    /// Ends a document; the next step that names it begins a new one.
    pub fn retire(&mut self, kind: &str, place: &Place) -> &mut Commit {
        let step = self.document("doc.retire", kind, place);
        self.step(step)
    }
    /// What becomes of the task; in phases and abort handlers only.
    pub fn state(&mut self, state: Json) -> &mut Commit {
        self.state = Some(state);
        self
    }
    /// Whether there is neither a step nor a state.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.state.is_none()
    }
    /// The commit as the completion of a phase.
    pub fn json(&self) -> Json {
        let mut json = object([]);
        if !self.steps.is_empty() {
            json.set("steps", self.steps.clone());
        }
        if let Some(state) = &self.state {
            json.set("state", state.clone());
        }
        json
    }
    fn input(&self) -> Json {
        let mut json = self.json();
        if self.steps.is_empty() {
            json.set("steps", array([]));
        }
        json
    }
}

// ------------------------------------------------------------------------------------ the border

type Handler = Box<dyn Fn(&Call) -> Result<Reply> + Send + Sync>;
type Cancellation = Box<dyn FnOnce(u32) + Send>;

/// What the handlers of one plugin share; made once for each mapping and never freed.
struct Core {
    host: Host,
    handlers: HashMap<String, Handler>,
    /// Targets that the manifest need not name.
    raw: HashSet<String>,
    /// Targets whose elements let them wait.
    blocking: HashSet<String>,
    /// Of documents, by kind.
    initial: HashMap<String, Json>,
    activate: Option<Box<dyn Fn() -> Result<()> + Send + Sync>>,
    deactivate: Option<Box<dyn Fn(Stop) -> Result<()> + Send + Sync>>,
    destroy: Option<Box<dyn Fn() + Send + Sync>>,
    cancellations: Mutex<HashMap<u64, Cancellation>>,
    settings: Mutex<Json>,
}

/// The host, for what a plugin asks outside any call. Copies are the same; any thread may use them.
#[derive(Clone, Copy)]
pub struct Host {
    calls: &'static abi::Calls1,
    invoke: Option<&'static abi::Invoke1>,
}

// SAFETY: the tables of the host may be used from any thread, by the contract, and live for ever.
unsafe impl Send for Host {}
// SAFETY: the same.
unsafe impl Sync for Host {}

impl Host {
    /// An operation outside any call, with a JSON result. Waits.
    pub fn invoke(&self, op: &str, input: Json) -> Result<Json> {
        wait(*self, None, op, input.into())?.json()
    }
    /// The same without waiting.
    pub fn invoke_then(
        &self,
        op: &str,
        input: Json,
        then: impl FnOnce(Result<Json>) -> Result<()> + Send + 'static,
    ) -> Result<Request> {
        let then = move |result: Result<Value>| then(result.and_then(|value| value.json()));
        begin(*self, None, op, input.into(), Box::new(then))
    }
    /// A line in the host's log, outside any call. Never waits.
    pub fn log(&self, level: &str, message: &str) {
        let input = object([("level", level.into()), ("message", message.into())]);
        begin_one_way(*self, 0, "log", input);
    }
}

thread_local! {
    /// More than 0 on threads that must not wait.
    static MUST_NOT_WAIT: Cell<u32> = const { Cell::new(0) };
}

struct MustNotWait(bool);

impl MustNotWait {
    fn new(applies: bool) -> MustNotWait {
        MUST_NOT_WAIT.with(|depth| depth.set(depth.get() + u32::from(applies)));
        MustNotWait(applies)
    }
    fn applies() -> bool {
        MUST_NOT_WAIT.with(|depth| depth.get() > 0)
    }
}

impl Drop for MustNotWait {
    fn drop(&mut self) {
        MUST_NOT_WAIT.with(|depth| depth.set(depth.get() - u32::from(self.0)));
    }
}

/// A lock that a panic left is as good as before: no value behind one is ever half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn borrow(bytes: &[u8]) -> abi::Str {
    abi::Str {
        ptr: bytes.as_ptr(),
        len: bytes.len(),
    }
}

/// Copies bytes of the host.
///
/// # Safety
/// They are readable unless the length is 0 or ABSENT.
unsafe fn copy(ptr: *const u8, len: usize) -> Vec<u8> {
    if len == 0 || len == abi::ABSENT || ptr.is_null() {
        return Vec::new();
    }
    std::slice::from_raw_parts(ptr, len).to_vec()
}

unsafe fn copy_text(text: abi::Str) -> String {
    String::from_utf8_lossy(&copy(text.ptr, text.len)).into_owned()
}

/// What a panic says. The payload is not dropped, because that may panic again.
fn panic_message(payload: Box<dyn Any + Send>) -> Error {
    let what = match (
        payload.downcast_ref::<&str>(),
        payload.downcast_ref::<String>(),
    ) {
        (Some(text), _) => (*text).to_string(),
        (None, Some(text)) => text.clone(),
        (None, None) => "with no text".to_string(),
    };
    std::mem::forget(payload);
    let mut error = Error::new(code::INTERNAL, format!("the plugin panicked: {what}"));
    error.flags = flag::PLUGIN_BUG;
    error
}

/// Runs something that may panic.
fn guarded<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(payload) => Err(panic_message(payload)),
    }
}

/// Lends bytes to the host for one function; long ones are handed over, so that it need not copy.
fn lend<T>(value: Value, body: impl FnOnce(*const abi::Blob) -> T) -> T {
    unsafe extern "C" fn release(owner: *mut c_void) {
        drop(Box::from_raw(owner.cast::<Value>()));
    }
    let value = Box::new(value);
    let mut blob = abi::Blob {
        size: size_of::<abi::Blob>() as u32,
        flags: 0,
        ptr: value.bytes.as_ptr(),
        len: value.bytes.len(),
        media_type: borrow(value.media_type.as_bytes()),
        owner: std::ptr::null_mut(),
        release: None,
    };
    if blob.len < 65536 {
        let result = body(&blob);
        drop(value);
        return result;
    }
    blob.owner = Box::into_raw(value).cast();
    blob.release = Some(release);
    body(&blob)
}

struct CallState {
    core: &'static Core,
    id: u64,
    parent: u64,
    deadline_ns: u64,
    target: String,
    input: Value,
    json: Json,
    answered: AtomicBool,
}

impl CallState {
    /// Takes the one answer; false if there was one before.
    fn is_first(&self) -> bool {
        !self.answered.swap(true, Ordering::AcqRel)
    }
    fn over(&self) {
        let last = lock(&self.core.cancellations).remove(&self.id);
        // Dropped behind the lock, because it may hold the last copy of a call.
        drop(last);
    }
    fn answer(&self, reply: Reply) -> i32 {
        let value = match reply {
            Reply::Later => return 0,
            Reply::Emitted => None,
            Reply::Value(value) => Some(value),
        };
        if !self.is_first() {
            return code::STALE;
        }
        let complete = |blob: *const abi::Blob| {
            // SAFETY: the blob is borrowed until the function returns, or handed over.
            unsafe {
                (self.core.host.calls.complete)(
                    self.core.host.calls.ctx,
                    self.id,
                    0,
                    blob,
                    std::ptr::null(),
                )
            }
        };
        let status = match value {
            Some(value) => lend(value, complete),
            None => complete(std::ptr::null()),
        };
        self.over();
        status
    }
    fn fail(&self, error: &Error) -> i32 {
        if !self.is_first() {
            return code::STALE;
        }
        let detail = if error.detail.is_null() {
            String::new()
        } else {
            error.detail.dump()
        };
        let mut err = abi::Err {
            size: size_of::<abi::Err>() as u32,
            code: if error.code < 0 {
                error.code
            } else {
                code::INTERNAL
            },
            flags: error.flags,
            reserved: 0,
            message: borrow(error.message.as_bytes()),
            detail: borrow(detail.as_bytes()),
        };
        if detail.is_empty() {
            err.detail.len = abi::ABSENT;
        }
        // SAFETY: the error is borrowed until the function returns.
        let status = unsafe {
            let calls = self.core.host.calls;
            (calls.complete)(calls.ctx, self.id, err.code, std::ptr::null(), &err)
        };
        self.over();
        status
    }
}

impl Drop for CallState {
    fn drop(&mut self) {
        if !*self.answered.get_mut() {
            let mut error = Error::new(
                code::INTERNAL,
                "the plugin dropped the call without an answer",
            );
            error.flags = flag::PLUGIN_BUG;
            self.fail(&error);
        }
    }
}

type Continuation = Box<dyn FnOnce(Result<Value>) -> Result<()> + Send>;

struct Pending {
    call: Option<Arc<CallState>>,
    then: Continuation,
}

unsafe extern "C" fn done(
    arg: *mut c_void,
    _request: u64,
    status: i32,
    value: *const abi::Blob,
    err: *const abi::Err,
) {
    // SAFETY: the host calls this once for each request, with what begin gave it.
    let pending = Box::from_raw(arg.cast::<Pending>());
    let Pending { call, then } = *pending;
    let result = guarded(|| {
        let _here = MustNotWait::new(true);
        then(if status < 0 || !err.is_null() {
            Err(error_of(status, err))
        } else if let Some(value) = value.as_ref() {
            Ok(Value {
                media_type: copy_text(value.media_type),
                bytes: copy(value.ptr, value.len),
            })
        } else {
            Ok(Value::raw("", Vec::new()))
        })
    });
    if let (Err(error), Some(call)) = (result, &call) {
        call.fail(&error);
    }
    let _ = guarded(|| {
        drop(call);
        Ok(())
    });
}

unsafe fn error_of(status: i32, err: *const abi::Err) -> Error {
    match err.as_ref() {
        None => Error::new(status, format!("the host answers with the code {status}")),
        Some(err) => {
            let detail = copy(err.detail.ptr, err.detail.len);
            Error {
                code: status,
                flags: err.flags,
                message: copy_text(err.message),
                detail: Json::parse(detail).unwrap_or(Json::Null),
            }
        }
    }
}

/// Starts an operation; fails if the host refuses it.
fn begin(
    host: Host,
    call: Option<&Arc<CallState>>,
    op: &str,
    input: Value,
    then: Continuation,
) -> Result<Request> {
    let invoke = host.invoke.ok_or_else(|| {
        Error::with(
            code::UNSUPPORTED,
            "the host lacks the table perdure.invoke/1",
            "op",
        )
    })?;
    let within = call.map_or(0, |call| call.id);
    let pending = Box::into_raw(Box::new(Pending {
        call: call.cloned(),
        then,
    }));
    let mut request = 0;
    let status = lend(input, |blob| {
        // SAFETY: all is borrowed until the function returns; pending lives until done has run.
        unsafe {
            (invoke.start)(
                invoke.ctx,
                within,
                borrow(op.as_bytes()),
                blob,
                Some(done),
                pending.cast(),
                &mut request,
            )
        }
    });
    if status < 0 {
        // SAFETY: a request that is refused is never done.
        drop(unsafe { Box::from_raw(pending) });
        return Err(Error::new(
            status,
            format!("the host refuses the operation {op}"),
        ));
    }
    Ok(Request { host, id: request })
}

fn begin_one_way(host: Host, within: u64, op: &str, input: Json) {
    if let Some(invoke) = host.invoke {
        lend(input.into(), |blob| {
            // SAFETY: all is borrowed until the function returns.
            unsafe {
                (invoke.start)(
                    invoke.ctx,
                    within,
                    borrow(op.as_bytes()),
                    blob,
                    None,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                )
            }
        });
    }
}

/// Starts an operation and waits for its end.
fn wait(host: Host, call: Option<&Arc<CallState>>, op: &str, input: Value) -> Result<Value> {
    if MustNotWait::applies() {
        let message = format!(
            "{op} must not be waited for here: let the manifest say \"blocking\": true, or use \
             the form with a continuation"
        );
        return Err(Error::with(code::INVALID, message, "would_block"));
    }
    let meeting = Arc::new((Mutex::new(None), Condvar::new()));
    let theirs = Arc::clone(&meeting);
    begin(
        host,
        call,
        op,
        input,
        Box::new(move |result| {
            *lock(&theirs.0) = Some(result);
            theirs.1.notify_all();
            Ok(())
        }),
    )?;
    let mut result = lock(&meeting.0);
    loop {
        if let Some(result) = result.take() {
            return result;
        }
        result = meeting
            .1
            .wait(result)
            .unwrap_or_else(|poisoned| poisoned.into_inner());
    }
}

/// A request that was started with a continuation. It belongs to its call and ends with it; letting
/// go of this changes nothing.
pub struct Request {
    host: Host,
    id: u64,
}

impl Request {
    /// Asks the host to stop; the continuation still runs.
    pub fn cancel(&self) {
        if let Some(invoke) = self.host.invoke {
            // SAFETY: ids that are over are answered with STALE.
            unsafe { (invoke.cancel)(invoke.ctx, self.id) };
        }
    }
}

// ------------------------------------------------------------------------------------ calls

/// One call of the host. Clones are the same call; any thread may use them. The last one that goes
/// answers with an error if nobody did.
#[derive(Clone)]
pub struct Call(Arc<CallState>);

impl Call {
    /// The number of the call, which the host uses for no other one.
    pub fn id(&self) -> u64 {
        self.0.id
    }
    /// Such as "tool:grep".
    pub fn target(&self) -> &str {
        &self.0.target
    }
    /// The input as the host sent it, for other JSON libraries.
    pub fn input_bytes(&self) -> &[u8] {
        &self.0.input.bytes
    }
    /// The whole input.
    pub fn input(&self) -> &Json {
        &self.0.json
    }
    /// Where the call is: its conversation, task and time.
    pub fn context(&self) -> &Json {
        self.input().get("ctx")
    }
    /// The arguments of a tool, which the host has checked against its schema.
    pub fn arguments(&self) -> &Json {
        self.input().get("arguments")
    }
    /// An argument of a tool, or a null.
    pub fn argument(&self, name: &str) -> &Json {
        self.arguments().get(name)
    }
    /// The record of the task, in phases and abort handlers.
    pub fn task(&self) -> &Json {
        self.input().get("task")
    }
    /// What the task keeps between its phases.
    pub fn checkpoint(&self) -> &Json {
        self.task().get("state").get("checkpoint")
    }
    /// When the call will be cancelled, in nanoseconds of CLOCK_MONOTONIC.
    pub fn deadline_ns(&self) -> Option<u64> {
        Some(self.0.deadline_ns).filter(|&deadline| deadline != 0)
    }
    /// Why the call is cancelled, one of `cancel`; 0 if it is not. Cheap enough for loops.
    pub fn cancelled(&self) -> u32 {
        let calls = self.0.core.host.calls;
        // SAFETY: an id that is over is answered.
        unsafe { (calls.cancelled)(calls.ctx, self.0.id) }
    }
    /// Has this called once when the call is cancelled, on a thread of the host; it must not block.
    /// The call still wants its answer. Replaces an earlier one; goes when the call is answered.
    pub fn on_cancel(&self, then: impl FnOnce(u32) + Send + 'static) {
        unsafe extern "C" fn cancelled(arg: *mut c_void, call: u64, reason: u32) {
            // SAFETY: arg is the core, which is never freed.
            let core = &*arg.cast::<Core>();
            let _ = guarded(|| {
                let _here = MustNotWait::new(true);
                let then = lock(&core.cancellations).remove(&call);
                if let Some(then) = then {
                    then(reason);
                }
                Ok(())
            });
        }
        let core = self.0.core;
        let earlier = lock(&core.cancellations).insert(self.0.id, Box::new(then));
        drop(earlier);
        let arg = core as *const Core as *mut c_void;
        // SAFETY: the callback finds the call by its id, and its argument lives for ever.
        let status = unsafe {
            (core.host.calls.on_cancel)(core.host.calls.ctx, self.0.id, Some(cancelled), arg)
        };
        if status < 0 || self.0.answered.load(Ordering::Acquire) {
            self.0.over();
        }
    }

    /// Answers the call, if nobody did: 0, or the code with which the host refused the answer.
    pub fn answer(&self, reply: impl Into<Reply>) -> i32 {
        self.0.answer(reply.into())
    }
    /// Fails the call, if nobody answered it.
    pub fn fail(&self, error: &Error) -> i32 {
        self.0.fail(error)
    }

    // Output of tools and their wraps, in the order of these calls. They wait for credit where
    // waiting is allowed, and fail with WOULD_BLOCK elsewhere.

    /// Sends text of any length.
    pub fn output(&self, mut text: &str) -> Result<()> {
        const MOST: usize = 65536;
        while text.len() > MOST {
            let end = (0..=MOST)
                .rev()
                .find(|&end| text.is_char_boundary(end))
                .unwrap_or(0);
            self.frame(media::TEXT, text[..end].as_bytes())?;
            text = &text[end..];
        }
        if text.is_empty() {
            return Ok(());
        }
        self.frame(media::TEXT, text.as_bytes())
    }
    /// Sends bytes of any length, which the host decodes.
    pub fn output_bytes(&self, bytes: &[u8]) -> Result<()> {
        bytes
            .chunks(65536)
            .try_for_each(|chunk| self.frame(media::BYTES, chunk))
    }
    /// Says what the call's details are by now; null removes them.
    pub fn details(&self, value: Json) -> Result<()> {
        self.frame(media::JSON, object([("details", value)]).dump().as_bytes())
    }
    /// The severity is "info", "warn" or "error".
    pub fn diagnostic(&self, severity: &str, message: &str) -> Result<()> {
        let diagnostic = object([("severity", severity.into()), ("message", message.into())]);
        self.frame(
            media::JSON,
            object([("diagnostic", diagnostic)]).dump().as_bytes(),
        )
    }
    fn frame(&self, media_type: &str, bytes: &[u8]) -> Result<()> {
        let calls = self.0.core.host.calls;
        loop {
            let status = lend(Value::raw(media_type, bytes), |blob| {
                // SAFETY: the blob is borrowed until the function returns, or handed over.
                unsafe { (calls.emit)(calls.ctx, self.0.id, blob) }
            });
            match status {
                0 => return Ok(()),
                code::WOULD_BLOCK if !MustNotWait::applies() => self.flush()?,
                code::WOULD_BLOCK => {
                    return Err(Error::new(status, "the host has no room for output now"))
                }
                _ => return Err(Error::new(status, "the host refuses a frame of output")),
            }
        }
    }

    // Operations.

    /// Any operation, with any result.
    pub fn request(&self, op: &str, input: impl Into<Value>) -> Result<Value> {
        wait(self.0.core.host, Some(&self.0), op, input.into())
    }
    /// The same without waiting; the continuation gets the result on a thread of the host. Fails at
    /// once, and never runs the continuation, if the host refuses the operation.
    pub fn request_then(
        &self,
        op: &str,
        input: impl Into<Value>,
        then: impl FnOnce(Result<Value>) -> Result<()> + Send + 'static,
    ) -> Result<Request> {
        begin(
            self.0.core.host,
            Some(&self.0),
            op,
            input.into(),
            Box::new(then),
        )
    }
    /// Any operation with a JSON result.
    pub fn invoke(&self, op: &str, input: Json) -> Result<Json> {
        self.request(op, input)?.json()
    }
    /// The same without waiting.
    pub fn invoke_then(
        &self,
        op: &str,
        input: Json,
        then: impl FnOnce(Result<Json>) -> Result<()> + Send + 'static,
    ) -> Result<Request> {
        self.request_then(op, input, move |result| {
            then(result.and_then(|value| value.json()))
        })
    }
    /// Any operation that gives a stream.
    pub fn stream(&self, op: &str, input: Json) -> Result<Stream> {
        let begun = self.invoke(op, input)?;
        let handle = begun.get("stream").text()?.to_string();
        Ok(Stream {
            call: self.clone(),
            handle,
            items: Vec::new().into_iter(),
            end: None,
        })
    }

    /// A line in the host's log; the level is "debug", "info", "warn" or "error". Never waits.
    pub fn log(&self, level: &str, message: &str) {
        let input = object([("level", level.into()), ("message", message.into())]);
        begin_one_way(self.0.core.host, self.0.id, "log", input);
    }
    /// Milliseconds since 1970 on the host's clock.
    pub fn now(&self) -> Result<i64> {
        self.invoke("clock", object([]))?.get("now").integer()
    }
    /// Waits on the host's clock; ends early with CANCELLED.
    pub fn wait(&self, ms: u64) -> Result<()> {
        self.invoke("timer.wait", object([("ms", ms.into())]))
            .map(drop)
    }
    /// The same without waiting.
    pub fn wait_then(
        &self,
        ms: u64,
        then: impl FnOnce(Result<Json>) -> Result<()> + Send + 'static,
    ) -> Result<Request> {
        self.invoke_then("timer.wait", object([("ms", ms.into())]), then)
    }
    /// The settings of the run.
    pub fn run_settings(&self) -> Result<Json> {
        let result = self.invoke("settings.get", object([("scope", "run".into())]))?;
        Ok(result.get("settings").clone())
    }
    /// A secret that the manifest asks for, by its name there.
    pub fn secret(&self, name: &str) -> Result<Vec<u8>> {
        Ok(self
            .request("secret.get", object([("name", name.into())]))?
            .bytes)
    }
    /// Comes back when everything staged before the call began is on disk.
    pub fn barrier(&self) -> Result<()> {
        self.invoke("barrier", object([])).map(drop)
    }
    /// Comes back when everything emitted so far is committed.
    pub fn flush(&self) -> Result<()> {
        self.invoke("output.flush", object([])).map(drop)
    }
    /// What the task remembers under this name, if it does.
    pub fn recall(&self, name: &str) -> Result<Option<Json>> {
        Ok(self
            .invoke("memo", object([("name", name.into())]))?
            .find("value")
            .cloned())
    }
    /// What the task remembers under this name, which is the candidate unless there was one before.
    pub fn memo(&self, name: &str, candidate: impl Into<Json>) -> Result<Json> {
        let input = object([("name", name.into()), ("candidate", candidate.into())]);
        Ok(self.invoke("memo", input)?.get("value").clone())
    }
    /// The same without waiting.
    pub fn memo_then(
        &self,
        name: &str,
        candidate: impl Into<Json>,
        then: impl FnOnce(Result<Json>) -> Result<()> + Send + 'static,
    ) -> Result<Request> {
        let input = object([("name", name.into()), ("candidate", candidate.into())]);
        self.invoke_then("memo", input, move |result| {
            then(result.map(|json| json.get("value").clone()))
        })
    }
    /// The value of a document, if it exists, which this does not change.
    pub fn document(&self, kind: &str, place: &Place) -> Result<Option<Json>> {
        Ok(self
            .invoke("document.get", place.json(kind))?
            .find("value")
            .cloned())
    }
    /// The same without waiting.
    pub fn document_then(
        &self,
        kind: &str,
        place: &Place,
        then: impl FnOnce(Result<Option<Json>>) -> Result<()> + Send + 'static,
    ) -> Result<Request> {
        self.invoke_then("document.get", place.json(kind), move |result| {
            then(result.map(|json| json.find("value").cloned()))
        })
    }
    /// Runs all steps and the state, or nothing: {"ids": {name: id}, …}.
    pub fn commit(&self, commit: &Commit) -> Result<Json> {
        self.invoke("commit", commit.input())
    }
    /// The same without waiting.
    pub fn commit_then(
        &self,
        commit: &Commit,
        then: impl FnOnce(Result<Json>) -> Result<()> + Send + 'static,
    ) -> Result<Request> {
        self.invoke_then("commit", commit.input(), then)
    }
    /// Runs the body with reads that are checked when its steps are committed. If something it read
    /// has changed by then, it runs again, up to five times in all; it must have no other effect.
    pub fn transaction(&self, mut body: impl FnMut(&mut Tx) -> Result<()>) -> Result<Json> {
        let mut attempt = 1;
        loop {
            let begun = self.invoke("tx.begin", object([]))?;
            let mut tx = Tx {
                call: self.clone(),
                handle: begun.get("tx").text()?.to_string(),
                task: begun.get("task").clone(),
                commit: Commit::new(),
                drafts: Vec::new(),
            };
            if let Err(error) = guarded(|| body(&mut tx)) {
                let input = object([("tx", tx.handle.as_str().into())]);
                // It ends with the call anyway.
                let _ = self.request_then("tx.abort", input, |_| Ok(()));
                return Err(error);
            }
            match self.invoke("commit", tx.finished()) {
                Err(error)
                    if error.code == code::STALE && error.reason() == "conflict" && attempt < 5 =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }
    /// In wraps: runs what is wrapped, with these arguments or, if none, with the ones of the call.
    pub fn next(&self, arguments: Option<Json>) -> Result<Json> {
        self.invoke("next", Call::next_input(arguments))
    }
    /// The same without waiting.
    pub fn next_then(
        &self,
        arguments: Option<Json>,
        then: impl FnOnce(Result<Json>) -> Result<()> + Send + 'static,
    ) -> Result<Request> {
        self.invoke_then("next", Call::next_input(arguments), then)
    }
    fn next_input(arguments: Option<Json>) -> Json {
        match arguments {
            Some(arguments) => object([("arguments", arguments)]),
            None => object([]),
        }
    }
    /// Calls another tool and waits for its result.
    pub fn call_tool(&self, name: &str, arguments: Json, key: Option<&str>) -> Result<Json> {
        let mut input = object([("name", name.into()), ("arguments", arguments)]);
        if let Some(key) = key {
            input.set("key", key);
        }
        self.invoke("tool.call", input)
    }
    /// Waits for a task and gives its last record.
    pub fn wait_for_task(&self, task: i64) -> Result<Json> {
        self.invoke("task.wait", object([("task", task.into())]))
    }
    /// The same without waiting.
    pub fn wait_for_task_then(
        &self,
        task: i64,
        then: impl FnOnce(Result<Json>) -> Result<()> + Send + 'static,
    ) -> Result<Request> {
        self.invoke_then("task.wait", object([("task", task.into())]), then)
    }
    /// Submits to a conversation and gives {"submission": id, "status": …}.
    pub fn submit(
        &self,
        conversation: i64,
        content: &str,
        request_id: Option<&str>,
    ) -> Result<Json> {
        let mut input = object([
            ("conversation", conversation.into()),
            ("content", content.into()),
        ]);
        if let Some(id) = request_id {
            input.set("requestId", id);
        }
        self.invoke("conversation.submit", input)
    }
    /// Waits for a submission and gives its record.
    pub fn wait_for_submission(&self, submission: i64) -> Result<Json> {
        self.invoke(
            "submission.wait",
            object([("submission", submission.into())]),
        )
    }
}

/// Items that the host holds for a call. Iterating waits for them; dropping it closes it.
pub struct Stream {
    call: Call,
    handle: String,
    items: std::vec::IntoIter<Json>,
    end: Option<Json>,
}

impl Stream {
    /// What the stream ended with, after the last item.
    pub fn end(&self) -> Option<&Json> {
        self.end.as_ref()
    }
    fn more(&mut self) -> Result<()> {
        let input = object([("stream", self.handle.as_str().into())]);
        let batch = self.call.invoke("stream.next", input)?;
        self.items = batch.get("items").items().to_vec().into_iter();
        self.end = batch.find("end").cloned();
        Ok(())
    }
}

impl Iterator for Stream {
    type Item = Result<Json>;

    fn next(&mut self) -> Option<Result<Json>> {
        loop {
            if let Some(item) = self.items.next() {
                return Some(Ok(item));
            }
            if let Some(end) = &mut self.end {
                let error = end.find("error").cloned()?;
                *end = object([]);
                return Some(Err(Error {
                    code: error
                        .get("code")
                        .as_integer()
                        .map_or(code::INTERNAL, |c| c as i32),
                    flags: 0,
                    message: error
                        .get("message")
                        .as_text()
                        .unwrap_or("the stream failed")
                        .into(),
                    detail: error.get("detail").clone(),
                }));
            }
            if let Err(error) = self.more() {
                self.end = Some(object([]));
                return Some(Err(error));
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.end.is_none() {
            let input = object([("stream", self.handle.as_str().into())]);
            // It ends with the call anyway.
            let _ = self.call.request_then("stream.close", input, |_| Ok(()));
        }
    }
}

struct Draft {
    kind: String,
    place: Place,
    address: String,
    before: Json,
    value: Json,
}

/// One run of the body of a transaction: first reads, then steps.
pub struct Tx {
    call: Call,
    handle: String,
    task: Json,
    /// The steps so far; add to them.
    pub commit: Commit,
    drafts: Vec<Draft>,
}

impl Tx {
    /// Any read that takes a transaction, such as "tasks.scan". After the first step it fails with
    /// INVALID, read_after_write.
    pub fn read(&mut self, op: &str, input: Json) -> Result<Json> {
        if !self.commit.is_empty() {
            let message = format!("{op} comes behind a step of its transaction; read first");
            return Err(Error::with(code::INVALID, message, "read_after_write"));
        }
        self.call.invoke(op, input.with("tx", self.handle.as_str()))
    }
    /// The call's own task as it was when the transaction began.
    pub fn task(&self) -> &Json {
        &self.task
    }
    /// The tasks of this type that the call's own task owns, at most 256. It may own others, too: one
    /// for each approval that somebody was asked for.
    pub fn own_tasks(&mut self, kind: &str) -> Result<Vec<Json>> {
        let filter = object([
            ("owner", "self".into()),
            ("kind", kind.into()),
            ("limit", 256.into()),
        ]);
        let found = self.read("tasks.scan", filter)?;
        Ok(found.get("items").items().to_vec())
    }
    /// The value of a document, if it exists.
    pub fn document(&mut self, kind: &str, place: &Place) -> Result<Option<Json>> {
        Ok(self
            .read("document.get", place.json(kind))?
            .find("value")
            .cloned())
    }
    /// The value of a document to change in place; it is written with the steps if it changed. One
    /// that does not exist begins as the manifest says.
    pub fn draft(&mut self, kind: &str, place: &Place) -> Result<&mut Json> {
        let address = place.json(kind).dump();
        let index = match self
            .drafts
            .iter()
            .position(|draft| draft.address == address)
        {
            Some(index) => index,
            None => {
                let value = match self.document(kind, place)? {
                    Some(value) => value,
                    None => {
                        let initial = &self.call.0.core.initial;
                        initial.get(kind).cloned().unwrap_or_else(|| object([]))
                    }
                };
                self.drafts.push(Draft {
                    kind: kind.to_string(),
                    place: place.clone(),
                    address,
                    before: value.clone(),
                    value,
                });
                self.drafts.len() - 1
            }
        };
        Ok(&mut self.drafts[index].value)
    }
    fn finished(mut self) -> Json {
        for draft in self.drafts {
            if draft.value != draft.before {
                self.commit.write(&draft.kind, draft.value, &draft.place);
            }
        }
        self.commit.input().with("tx", self.handle)
    }
}

// ------------------------------------------------------------------------------------ the plugin

/// Told to a plugin that is to stop; say stopped when no thread of its own is left.
pub struct Stop {
    host: Host,
    ticket: u64,
    /// In nanoseconds of CLOCK_MONOTONIC.
    pub deadline_ns: u64,
}

impl Stop {
    /// From any thread.
    pub fn stopped(self) {
        let input = object([("ticket", self.ticket.to_string().into())]);
        begin_one_way(self.host, 0, "lifecycle.stopped", input);
    }
}

/// What a plugin does: handlers for the elements of its manifest. The manifest and the handlers are
/// compared when the plugin is loaded; one without the other refuses it.
pub struct Plugin {
    core: Core,
}

impl Plugin {
    /// Any target that the manifest names.
    pub fn on<R: Into<Reply>>(
        &mut self,
        target: impl Into<String>,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        let target = target.into();
        let handler: Handler = Box::new(move |call| handler(call).map(Into::into));
        if self.core.handlers.contains_key(&target) {
            let message = format!("the plugin has two handlers for {target}");
            return Err(Error::with(code::INVALID, message, "shape"));
        }
        self.core.handlers.insert(target, handler);
        Ok(())
    }
    /// Any target that the manifest does not name, also one that is registered later.
    pub fn raw<R: Into<Reply>>(
        &mut self,
        target: impl Into<String>,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        let target = target.into();
        self.core.raw.insert(target.clone());
        self.on(target, handler)
    }
    /// A tool. It answers with a text or an object with "output", "details" and the rest, or with
    /// `Reply::Emitted`.
    pub fn tool<R: Into<Reply>>(
        &mut self,
        name: &str,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        self.on(format!("tool:{name}"), handler)
    }
    /// Makes arguments out of what a model wrote: {"arguments": …}.
    pub fn prepare<R: Into<Reply>>(
        &mut self,
        tool: &str,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        self.on(format!("tool.prepare:{tool}"), handler)
    }
    /// A section of the prompt. It answers with a text, or with {} to be left out.
    pub fn section<R: Into<Reply>>(
        &mut self,
        key: &str,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        self.on(format!("section:{key}"), handler)
    }
    /// A hook. It answers with `pass`, `deny`, `ask` or a change; a guard that fails denies.
    pub fn hook<R: Into<Reply>>(
        &mut self,
        point: &str,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        self.on(format!("hook:{point}"), handler)
    }
    /// A wrap of a tool, which answers as the tool would; `Call::next` runs what is wrapped.
    pub fn wrap_tool<R: Into<Reply>>(
        &mut self,
        name: &str,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        self.on(format!("wrap:tool:{name}"), handler)
    }
    /// A wrap of a section, which answers as the section would.
    pub fn wrap_section<R: Into<Reply>>(
        &mut self,
        key: &str,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        self.on(format!("wrap:section:{key}"), handler)
    }
    /// One phase of a task; it answers with a Commit that has a state, or with {} after having
    /// committed one.
    pub fn phase<R: Into<Reply>>(
        &mut self,
        kind: &str,
        version: u32,
        phase: &str,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        self.on(format!("task:{kind}@{version}/{phase}"), handler)
    }
    /// What is to happen when a task is aborted; without one it simply ends as aborted.
    pub fn abort<R: Into<Reply>>(
        &mut self,
        kind: &str,
        version: u32,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        self.on(format!("task.abort:{kind}@{version}"), handler)
    }
    /// The first checkpoint of a task whose manifest says "call": {"checkpoint": …}. No operations.
    pub fn initial<R: Into<Reply>>(
        &mut self,
        kind: &str,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        self.on(format!("task.initial:{kind}"), handler)
    }
    /// Makes the input and checkpoint of this version out of older ones. No operations.
    pub fn migrate<R: Into<Reply>>(
        &mut self,
        kind: &str,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        self.on(format!("task.migrate:{kind}"), handler)
    }
    /// Makes the value of this version out of an older one: {"value": …}. No operations.
    pub fn migrate_document<R: Into<Reply>>(
        &mut self,
        kind: &str,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        self.on(format!("document.migrate:{kind}"), handler)
    }
    /// Gives the state that an upgrade hands to the next version: {"version": …, "state": …}.
    pub fn snapshot<R: Into<Reply>>(
        &mut self,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        self.on("snapshot", handler)
    }
    /// Takes the state of another version; an Err refuses the upgrade.
    pub fn restore<R: Into<Reply>>(
        &mut self,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        self.on("restore", handler)
    }
    /// Says whether the plugin works: {"checks": […]}. Without it there are no checks.
    pub fn self_test<R: Into<Reply>>(
        &mut self,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        self.raw("selftest", handler)
    }
    /// Says how well one of the manifest's "health" is: {"status": "ok"}.
    pub fn health<R: Into<Reply>>(
        &mut self,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        self.on("health", handler)
    }
    /// The host, to be kept by handlers and threads. Asks nothing before setup is over.
    pub fn host(&self) -> Host {
        self.core.host
    }
    /// An Err refuses settings. Without it all that fit the schema are taken.
    pub fn on_settings<R: Into<Reply>>(
        &mut self,
        handler: impl Fn(&Call) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        self.raw("settings.changed", handler)
    }
    /// Makes the plugin ready; may take 10 s, and an Err refuses the plugin.
    pub fn on_activate(&mut self, body: impl Fn() -> Result<()> + Send + Sync + 'static) {
        self.core.activate = Some(Box::new(body));
    }
    /// Must not block; join threads elsewhere and say stopped then.
    pub fn on_deactivate(&mut self, body: impl Fn(Stop) -> Result<()> + Send + Sync + 'static) {
        self.core.deactivate = Some(Box::new(body));
    }
    /// The last thing that runs; the host answers nothing any more.
    pub fn on_destroy(&mut self, body: impl Fn() + Send + Sync + 'static) {
        self.core.destroy = Some(Box::new(body));
    }

    /// Fails if the manifest and the handlers do not fit each other.
    fn compare(&mut self, manifest: &Json) -> Result<()> {
        let by_default = manifest
            .get("execution")
            .get("blocking")
            .as_boolean()
            .unwrap_or(false);
        let mut named: Vec<(String, bool)> = Vec::new();
        let mut expect = |target: String, element: &Json| {
            named.push((
                target,
                element.get("blocking").as_boolean().unwrap_or(by_default),
            ));
        };
        for tool in manifest.get("tools").items() {
            expect(format!("tool:{}", tool.get("name").text()?), tool);
            if tool.get("prepare").as_boolean() == Some(true) {
                expect(format!("tool.prepare:{}", tool.get("name").text()?), tool);
            }
        }
        for section in manifest.get("sections").items() {
            if section.find("text").is_none() {
                expect(format!("section:{}", section.get("key").text()?), section);
            }
        }
        for hook in manifest.get("hooks").items() {
            expect(format!("hook:{}", hook.get("point").text()?), hook);
        }
        for wrap in manifest.get("wraps").items() {
            match wrap.find("tool") {
                Some(tool) => expect(format!("wrap:tool:{}", tool.text()?), wrap),
                None => expect(
                    format!("wrap:section:{}", wrap.get("section").text()?),
                    wrap,
                ),
            }
        }
        let mut aborts = Vec::new();
        for task in manifest.get("tasks").items() {
            let kind = task.get("type").text()?;
            let version = task.get("version").integer()?;
            for phase in task.get("phases").items() {
                expect(format!("task:{kind}@{version}/{}", phase.text()?), task);
            }
            aborts.push(format!("task.abort:{kind}@{version}"));
            expect(format!("task.abort:{kind}@{version}"), task);
            if task.get("initial").as_text().is_some() {
                expect(format!("task.initial:{kind}"), task);
            }
            if !task.get("migrates").items().is_empty() {
                expect(format!("task.migrate:{kind}"), task);
            }
        }
        for document in manifest.get("documents").items() {
            let kind = document.get("kind").text()?;
            let initial = document
                .find("initial")
                .cloned()
                .unwrap_or_else(|| object([]));
            self.core.initial.insert(kind.to_string(), initial);
            if !document.get("migrates").items().is_empty() {
                expect(format!("document.migrate:{kind}"), document);
            }
        }
        if !manifest.get("health").items().is_empty() {
            expect("health".to_string(), &NULL);
        }
        if manifest.find("state").is_some() {
            expect("snapshot".to_string(), &NULL);
            expect("restore".to_string(), &NULL);
        }
        for target in aborts {
            let handler: Handler = Box::new(|_| {
                let mut commit = Commit::new();
                commit.state(state::aborted());
                Ok(commit.into())
            });
            self.core.handlers.entry(target).or_insert(handler);
        }
        let fault = |message| Err(Error::with(code::INVALID, message, "shape"));
        for (target, _) in &named {
            if !self.core.handlers.contains_key(target) {
                return fault(format!("the manifest names {target}, which has no handler"));
            }
        }
        let handlers = self.core.handlers.keys();
        let mut unknown: Vec<&str> = handlers
            .filter(|target| !self.core.raw.contains(*target))
            .filter(|target| !named.iter().any(|n| &n.0 == *target))
            .map(String::as_str)
            .collect();
        if !unknown.is_empty() {
            unknown.sort_unstable();
            return fault(format!(
                "the manifest does not name {}",
                unknown.join(", ")
            ));
        }
        self.core.blocking = named.into_iter().filter(|n| n.1).map(|n| n.0).collect();
        if by_default {
            self.core.blocking.extend(self.core.raw.iter().cloned());
        }
        let defaults: [(&str, Handler); 2] = [
            ("settings.changed", Box::new(|_| Ok(Reply::nothing()))),
            (
                "selftest",
                Box::new(|_| Ok(object([("checks", array([]))]).into())),
            ),
        ];
        for (target, handler) in defaults {
            self.core
                .handlers
                .entry(target.to_string())
                .or_insert(handler);
        }
        Ok(())
    }
}

/// The settings that the host told last, for a call of the plugin.
pub fn settings(call: &Call) -> Json {
    lock(&call.0.core.settings).clone()
}

/// What perdure_plugin! makes of perdure_plugin_1.
///
/// # Safety
/// The arguments are those that the host gave.
pub unsafe fn enter(
    host: *const abi::Host,
    out: *mut abi::Plugin,
    err: *mut abi::ErrBuf,
    manifest: &[u8],
    note: &abi::Note,
    setup: fn(&mut Plugin) -> Result<()>,
) -> i32 {
    // Reads the note, so that no linker takes it for unused.
    std::ptr::read_volatile(&note.kind);
    let result = guarded(|| {
        let too_old = || Error::new(code::UNSUPPORTED, "the host is older than this plugin");
        let host = host.as_ref().ok_or_else(too_old)?;
        let query = host.query.ok_or_else(too_old)?;
        if out.is_null() || ((*out).size as usize) < size_of::<abi::Plugin>() {
            return Err(too_old());
        }
        let calls = query(
            host.ctx,
            borrow(abi::CALLS_1.as_bytes()),
            size_of::<abi::Calls1>() as u32,
        );
        let invoke = query(
            host.ctx,
            borrow(abi::INVOKE_1.as_bytes()),
            size_of::<abi::Invoke1>() as u32,
        );
        let mut plugin = Plugin {
            core: Core {
                host: Host {
                    calls: calls.cast::<abi::Calls1>().as_ref().ok_or_else(|| {
                        Error::new(
                            code::UNSUPPORTED,
                            "the host lacks the table perdure.calls/1",
                        )
                    })?,
                    invoke: invoke.cast::<abi::Invoke1>().as_ref(),
                },
                handlers: HashMap::new(),
                raw: HashSet::new(),
                blocking: HashSet::new(),
                initial: HashMap::new(),
                activate: None,
                deactivate: None,
                destroy: None,
                cancellations: Mutex::new(HashMap::new()),
                settings: Mutex::new(object([])),
            },
        };
        setup(&mut plugin)?;
        plugin.compare(&Json::parse(manifest)?)?;
        // Never freed: threads of the host may use it for as long as the process lives.
        let core: &'static Core = Box::leak(Box::new(plugin.core));
        let out = &mut *out;
        out.state = core as *const Core as *mut c_void;
        out.start = Some(start);
        out.activate = Some(activate);
        out.deactivate = core.deactivate.is_some().then_some(deactivate as _);
        out.destroy = Some(destroy);
        Ok(())
    });
    refused(result, err)
}

/// Tells an error to the host: its code, 0 if there is none.
unsafe fn refused(result: Result<()>, err: *mut abi::ErrBuf) -> i32 {
    let error = match result {
        Ok(()) => return 0,
        Err(error) => error,
    };
    let code = if error.code < 0 {
        error.code
    } else {
        code::INTERNAL
    };
    if let Some(err) = err.as_mut() {
        err.code = code;
        err.len = 0;
        if !err.buf.is_null() {
            err.len = err.cap.min(error.message.len());
            std::ptr::copy_nonoverlapping(error.message.as_ptr(), err.buf, err.len);
        }
    }
    code
}

unsafe extern "C" fn activate(state: *mut c_void, err: *mut abi::ErrBuf) -> i32 {
    let core: &'static Core = &*state.cast::<Core>();
    let result = guarded(|| core.activate.as_ref().map_or(Ok(()), |activate| activate()));
    refused(result, err)
}

unsafe extern "C" fn deactivate(state: *mut c_void, ticket: u64, deadline_ns: u64) -> i32 {
    let core: &'static Core = &*state.cast::<Core>();
    let result = guarded(|| {
        let _here = MustNotWait::new(true);
        match &core.deactivate {
            Some(deactivate) => deactivate(Stop {
                host: core.host,
                ticket,
                deadline_ns,
            }),
            None => Ok(()),
        }
    });
    refused(result, std::ptr::null_mut())
}

unsafe extern "C" fn destroy(state: *mut c_void) {
    let core: &'static Core = &*state.cast::<Core>();
    let _ = guarded(|| {
        if let Some(destroy) = &core.destroy {
            destroy();
        }
        Ok(())
    });
}

unsafe extern "C" fn start(state: *mut c_void, call: *const abi::Call) -> i32 {
    let core: &'static Core = &*state.cast::<Core>();
    let accepted = guarded(|| {
        let given = match call.as_ref() {
            Some(given) if given.size as usize >= size_of::<abi::Call>() => given,
            _ => return Err(Error::new(code::UNSUPPORTED, "")),
        };
        let target = copy_text(given.target);
        let handler = core.handlers.get(&target);
        if handler.is_none() || given.flags & abi::MUST_UNDERSTAND != 0 {
            return Err(Error::new(code::UNSUPPORTED, ""));
        }
        let input = match given.input.as_ref() {
            Some(input) => Value {
                media_type: copy_text(input.media_type),
                bytes: copy(input.ptr, input.len),
            },
            None => Value::raw("", Vec::new()),
        };
        let json = input.json()?;
        Ok((
            handler,
            Call(Arc::new(CallState {
                core,
                id: given.id,
                parent: given.parent,
                deadline_ns: given.deadline_ns,
                target,
                input,
                json,
                answered: AtomicBool::new(false),
            })),
        ))
    });
    let (handler, call) = match accepted {
        Ok((Some(handler), call)) => (handler, call),
        Ok((None, _)) => return code::UNSUPPORTED,
        Err(error) => return error.code,
    };
    let answer = guarded(|| {
        let _here = MustNotWait::new(!core.blocking.contains(call.target()));
        if call.target() == "settings.changed" {
            *lock(&core.settings) = call.input().get("settings").clone();
        }
        handler(&call)
    });
    let _ = guarded(|| {
        match answer {
            Ok(reply) => call.0.answer(reply),
            Err(error) => call.0.fail(&error),
        };
        drop(call);
        Ok(())
    });
    0
}

/// Makes the plugin: its note, its manifest and its entry, once, in the crate's root. The manifest
/// is a text that is known when compiling, such as a literal or include_str!("manifest.json"). setup
/// is `fn(&mut Plugin) -> Result<()>`: it names the handlers, starts no thread and calls nothing of
/// the host.
#[macro_export]
macro_rules! perdure_plugin {
    ($manifest:expr, $setup:path) => {
        #[used]
        #[link_section = ".note.perdure"]
        static PERDURE_NOTE: $crate::perdure::abi::Note = $crate::perdure::abi::note();

        #[used]
        #[link_section = ".perdure.manifest"]
        static PERDURE_MANIFEST: [u8; ($manifest).len()] = $crate::perdure::abi::bytes($manifest);

        /// The one function that the host looks for.
        ///
        /// # Safety
        /// The arguments are those that the host gives.
        #[no_mangle]
        pub unsafe extern "C" fn perdure_plugin_1(
            host: *const $crate::perdure::abi::Host,
            out: *mut $crate::perdure::abi::Plugin,
            err: *mut $crate::perdure::abi::ErrBuf,
        ) -> i32 {
            $crate::perdure::enter(host, out, err, &PERDURE_MANIFEST, &PERDURE_NOTE, $setup)
        }
    };
}
