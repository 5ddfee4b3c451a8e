//! A plugin in Zig with one of each kind: it keeps notes and shows them to the model.
//!
//! It stands on perdure.h alone. Build it in a release mode: what Zig calls a panic ends the process.
const std = @import("std");
const c = @import("c");
const json = std.json;

const list = "example.notes-zig.list";
const keep = "example.notes-zig.keep";

// ---- the border

const manifest linksection(".perdure.manifest") = @embedFile("notes.json").*;
const note_of_plugin linksection(".note.perdure") = c.pdr_note{
    .name_size = 8,
    .desc_size = @sizeOf(c.pdr_note_desc),
    .type = c.PDR_NOTE_TYPE,
    .name = "Perdure\x00".*,
    .desc = .{
        .size = @sizeOf(c.pdr_note_desc),
        .abi_major = c.PDR_ABI_MAJOR,
        .host_minor = 0,
        .message_level = 1,
        .flags = 0,
        .runtime = padded("zig"),
    },
};

fn padded(comptime text: []const u8) [32]u8 {
    var bytes = std.mem.zeroes([32]u8);
    @memcpy(bytes[0..text.len], text);
    return bytes;
}

var calls: *const c.pdr_calls_1 = undefined;
var invoke: *const c.pdr_invoke_1 = undefined;

fn str(text: []const u8) c.pdr_str {
    return .{ .ptr = text.ptr, .len = text.len };
}

fn slice(text: c.pdr_str) []const u8 {
    return if (text.len == 0 or text.len == c.PDR_ABSENT) "" else text.ptr[0..text.len];
}

fn blob(media_type: []const u8, bytes: []const u8) c.pdr_blob {
    var made = std.mem.zeroes(c.pdr_blob);
    made.size = @sizeOf(c.pdr_blob);
    made.ptr = bytes.ptr;
    made.len = bytes.len;
    made.media_type = str(media_type);
    return made;
}

/// One call while its handler runs; everything in it goes when the handler is over.
const Call = struct {
    id: c.pdr_id,
    target: []const u8,
    input: json.Value,
    memory: std.mem.Allocator,

    fn emit(call: *Call, media_type: []const u8, bytes: []const u8) void {
        const frame = blob(media_type, bytes);
        // Output that finds no room is left out here; a real plugin waits with output.flush.
        _ = calls.emit.?(calls.ctx, call.id, &frame);
    }

    /// Asks the host for an operation and waits for its result.
    fn ask(call: *Call, operation: []const u8, input: anytype) !json.Value {
        const text = try json.Stringify.valueAlloc(call.memory, input, .{});
        var wait = Wait{ .memory = call.memory };
        _ = c.sem_init(&wait.done, 0, 0);
        defer _ = c.sem_destroy(&wait.done);
        const sent = blob("", text);
        if (invoke.start.?(invoke.ctx, call.id, str(operation), &sent, Wait.finish, &wait, null) != 0)
            return error.Refused;
        while (c.sem_wait(&wait.done) != 0) {}
        if (wait.status != 0) return error.Failed;
        return json.parseFromSliceLeaky(json.Value, call.memory, try wait.result, .{});
    }
};

const Wait = struct {
    memory: std.mem.Allocator,
    done: c.sem_t = undefined,
    status: i32 = 0,
    result: std.mem.Allocator.Error![]u8 = "",

    fn finish(arg: ?*anyopaque, _: c.pdr_id, status: i32, value: [*c]const c.pdr_blob, _: [*c]const c.pdr_err) callconv(.c) void {
        const wait: *Wait = @ptrCast(@alignCast(arg));
        wait.status = status;
        if (value != null) wait.result = wait.memory.dupe(u8, value.*.ptr[0..value.*.len]);
        _ = c.sem_post(&wait.done);
    }
};

/// Gives a member of members, or null.
fn at(value: json.Value, path: []const []const u8) json.Value {
    var here = value;
    for (path) |name| {
        if (here != .object) return .null;
        here = here.object.get(name) orelse return .null;
    }
    return here;
}

fn integer(value: json.Value) !i64 {
    return if (value == .integer) value.integer else error.NotAnInteger;
}

fn text_of(value: json.Value) ![]const u8 {
    return if (value == .string) value.string else error.NotAText;
}

/// The object {}; what Zig writes as .{} is an empty array for JSON.
const empty: struct {} = .{};

const Reply = union(enum) { json: []const u8, text: []const u8 };

fn answer(call: *Call, value: anytype) !Reply {
    return .{ .json = try json.Stringify.valueAlloc(call.memory, value, .{}) };
}

// ---- what it does

/// A tool: says what it does, begins a task that keeps the note, and waits for it.
fn note(call: *Call) !Reply {
    call.emit("text/plain", "keeping the note\n");
    // The same after a crash, because the task remembers it.
    const now = at(try call.ask("clock", empty), &.{"now"});
    const begun = at(try call.ask("memo", .{ .name = "begun", .candidate = now }), &.{"value"});
    const task = try begin(call);
    call.emit("", try json.Stringify.valueAlloc(call.memory, .{ .details = .{ .task = task } }, .{}));
    const record = try call.ask("task.wait", .{ .task = task });
    const count = try integer(at(record, &.{ "state", "outcome", "result", "notes" }));
    const text = try std.fmt.allocPrint(call.memory, "note {d} is kept", .{count});
    return answer(call, .{
        .output = .{.{ .type = "text", .text = text }},
        .details = .{ .task = task, .begun = begun },
    });
}

/// Gives the task that an earlier run of this call began before a crash, or begins one.
fn begin(call: *Call) !i64 {
    const tasks = at(try call.ask("tasks.scan", .{ .owner = "self", .kind = keep }), &.{"items"});
    if (tasks == .array and tasks.array.items.len > 0)
        return integer(at(tasks.array.items[0], &.{"id"}));
    const text = at(call.input, &.{ "arguments", "text" });
    const committed = try call.ask("commit", .{ .steps = .{.{
        .do = "task.create",
        .type = keep,
        .input = .{ .text = text },
        .owner = "self",
        .as = "s1",
    }} });
    return integer(at(committed, &.{ "ids", "s1" }));
}

/// The two phases of the task. Each ends with a commit that says what is next.
fn sleep(call: *Call) !Reply {
    const now = try integer(at(try call.ask("clock", empty), &.{"now"}));
    return answer(call, .{ .state = .{
        .status = "sleeping",
        .checkpoint = .{ .phase = "write" },
        .until = now + 50,
    } });
}

fn write(call: *Call) !Reply {
    const text = at(call.input, &.{ "task", "input", "text" });
    const kept = at(try call.ask("document.get", .{ .kind = list }), &.{ "value", "notes" });
    const count = if (kept == .array) kept.array.items.len else 0;
    return answer(call, .{
        .steps = .{.{
            .do = "doc",
            .kind = list,
            .ops = .{.{ "p", .{"notes"}, count, 0, .{text} }},
        }},
        .state = .{
            .status = "terminal",
            .outcome = .{ .status = "completed", .result = .{ .notes = count + 1 } },
        },
    });
}

/// A section of the prompt, left out while there are no notes.
fn notes(call: *Call) !Reply {
    const kept = at(try call.ask("document.get", .{ .kind = list }), &.{ "value", "notes" });
    if (kept != .array) return answer(call, empty);
    var text: []const u8 = "Notes so far:";
    for (kept.array.items) |item|
        text = try std.mem.concat(call.memory, u8, &.{ text, "\n- ", try text_of(item) });
    return .{ .text = text };
}

/// A guard: refuses secrets, and has somebody asked about what is private.
fn guard(call: *Call) !Reply {
    const text = try text_of(at(call.input, &.{ "call", "arguments", "text" }));
    if (std.mem.indexOf(u8, text, "secret") != null)
        return answer(call, .{ .deny = .{ .reason = "secrets do not belong into notes" } });
    if (std.mem.indexOf(u8, text, "private") != null)
        return answer(call, .{ .ask = .{ .key = "private", .title = "Keep a private note?" } });
    return answer(call, empty);
}

/// A wrap: cuts blanks off the argument, and says so.
fn trim(call: *Call) !Reply {
    const text = try text_of(at(call.input, &.{ "arguments", "text" }));
    const trimmed = std.mem.trim(u8, text, " ");
    const result = try call.ask("next", .{ .arguments = .{ .text = trimmed } });
    if (trimmed.len == text.len) return answer(call, result);
    return answer(call, .{
        .output = at(result, &.{"output"}),
        .details = at(result, &.{"details"}),
        .diagnostics = .{.{ .severity = "info", .message = "blanks were cut off the note" }},
    });
}

/// What has nothing to say, and what happens to a task that is aborted.
fn nothing(call: *Call) !Reply {
    return answer(call, empty);
}

fn tested(call: *Call) !Reply {
    return .{ .json = try call.memory.dupe(u8, "{\"checks\":[]}") };
}

fn aborted(call: *Call) !Reply {
    return answer(call, .{ .state = .{ .status = "terminal", .outcome = .{ .status = "aborted" } } });
}

const handlers = [_]struct { []const u8, *const fn (*Call) anyerror!Reply }{
    .{ "tool:note", note },
    .{ "task:" ++ keep ++ "@1/wait", sleep },
    .{ "task:" ++ keep ++ "@1/write", write },
    .{ "task.abort:" ++ keep ++ "@1", aborted },
    .{ "section:notes", notes },
    .{ "hook:beforeTool", guard },
    .{ "wrap:tool:note", trim },
    .{ "settings.changed", nothing },
    .{ "selftest", tested },
};

fn start(_: ?*anyopaque, given: [*c]const c.pdr_call) callconv(.c) i32 {
    const target = slice(given.*.target);
    for (handlers) |handler| {
        if (std.mem.eql(u8, handler[0], target)) return run(given, handler[1]);
    }
    return c.PDR_E_UNSUPPORTED;
}

/// Runs a handler and answers the call: with its reply, or with the name of its error.
fn run(given: [*c]const c.pdr_call, handler: *const fn (*Call) anyerror!Reply) i32 {
    var arena = std.heap.ArenaAllocator.init(std.heap.c_allocator);
    defer arena.deinit();
    const reply = reply_of(given, handler, arena.allocator()) catch |failure| {
        var err = std.mem.zeroes(c.pdr_err);
        err.size = @sizeOf(c.pdr_err);
        err.code = c.PDR_E_INTERNAL;
        err.message = str(@errorName(failure));
        _ = calls.complete.?(calls.ctx, given.*.id, err.code, null, &err);
        return c.PDR_OK;
    };
    const value = switch (reply) {
        .json => |bytes| blob("application/json", bytes),
        .text => |bytes| blob("text/plain", bytes),
    };
    _ = calls.complete.?(calls.ctx, given.*.id, c.PDR_OK, &value, null);
    return c.PDR_OK;
}

fn reply_of(given: [*c]const c.pdr_call, handler: *const fn (*Call) anyerror!Reply, memory: std.mem.Allocator) !Reply {
    const input = given.*.input.*;
    var call = Call{
        .id = given.*.id,
        .target = slice(given.*.target),
        .input = try json.parseFromSliceLeaky(json.Value, memory, input.ptr[0..input.len], .{}),
        .memory = memory,
    };
    return handler(&call);
}

export fn perdure_plugin_1(host: [*c]const c.pdr_host, out: [*c]c.pdr_plugin, err: [*c]c.pdr_errbuf) i32 {
    // So that they are not left out as unused.
    std.mem.doNotOptimizeAway(&manifest);
    std.mem.doNotOptimizeAway(&note_of_plugin);
    const query = host.*.query orelse return c.PDR_E_UNSUPPORTED;
    if (out.*.size < @sizeOf(c.pdr_plugin))
        return refuse(err, "the host is older than this plugin");
    const answers = query(host.*.ctx, str(c.PDR_CALLS_1), @sizeOf(c.pdr_calls_1)) orelse
        return refuse(err, "the host lacks the table perdure.calls/1");
    const operations = query(host.*.ctx, str(c.PDR_INVOKE_1), @sizeOf(c.pdr_invoke_1)) orelse
        return refuse(err, "the host lacks the table perdure.invoke/1");
    calls = @ptrCast(@alignCast(answers));
    invoke = @ptrCast(@alignCast(operations));
    out.*.start = start;
    return c.PDR_OK;
}

fn refuse(err: [*c]c.pdr_errbuf, sentence: []const u8) i32 {
    if (err != null and err.*.buf != null) {
        err.*.code = c.PDR_E_UNSUPPORTED;
        err.*.len = @min(err.*.cap, sentence.len);
        @memcpy(err.*.buf[0..err.*.len], sentence[0..err.*.len]);
    }
    return c.PDR_E_UNSUPPORTED;
}
