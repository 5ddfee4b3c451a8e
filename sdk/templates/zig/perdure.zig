//! The border between a plugin in Zig and perdure.h: calls come in as values, and answers go out.
//!
//! Build it in a release mode: what Zig calls a panic ends the process.
const std = @import("std");
const c = @import("c");
const json = std.json;

/// What a handler answers with.
pub const Reply = union(enum) { json: []const u8, text: []const u8 };

/// One call while its handler runs; everything in it goes when the handler is over.
pub const Call = struct {
    id: c.pdr_id,
    target: []const u8,
    /// All that the host says; see docs/plugins.md.
    input: json.Value,
    memory: std.mem.Allocator,
    /// What the model is told if the handler fails.
    sentence: ?[]const u8 = null,

    /// Gives a member of members of the input, or null.
    pub fn at(call: *Call, path: []const []const u8) json.Value {
        return member(call.input, path);
    }

    /// Answers with a text: the output of a tool, the text of a section.
    pub fn text(call: *Call, comptime format: []const u8, values: anytype) !Reply {
        return .{ .text = try std.fmt.allocPrint(call.memory, format, values) };
    }

    /// Answers with an object.
    pub fn object(call: *Call, value: anytype) !Reply {
        return .{ .json = try json.Stringify.valueAlloc(call.memory, value, .{}) };
    }

    /// Answers that there is nothing to add.
    pub fn nothing(_: *Call) !Reply {
        return .{ .json = "{}" };
    }

    /// Fails with a sentence that the model reads: return call.fail("the file is not there").
    pub fn fail(call: *Call, sentence: []const u8) error{Told} {
        call.sentence = sentence;
        return error.Told;
    }

    /// Asks the host for an operation and waits for its result; needs "blocking": true.
    pub fn ask(call: *Call, operation: []const u8, input: anytype) !json.Value {
        const bytes = try json.Stringify.valueAlloc(call.memory, input, .{});
        var wait = Wait{ .memory = call.memory };
        _ = c.sem_init(&wait.done, 0, 0);
        defer _ = c.sem_destroy(&wait.done);
        const sent = blob("", bytes);
        if (invoke.start.?(invoke.ctx, call.id, str(operation), &sent, Wait.finish, &wait, null) != 0)
            return error.Refused;
        while (c.sem_wait(&wait.done) != 0) {}
        const result = try wait.result;
        if (wait.status == 0) return json.parseFromSliceLeaky(json.Value, call.memory, result, .{});
        if (result.len > 0) call.sentence = result;
        return error.Failed;
    }
};

/// Gives a member of members, or null.
pub fn member(value: json.Value, path: []const []const u8) json.Value {
    var here = value;
    for (path) |name| {
        if (here != .object) return .null;
        here = here.object.get(name) orelse return .null;
    }
    return here;
}

pub fn integer(value: json.Value) !i64 {
    return if (value == .integer) value.integer else error.NotAnInteger;
}

pub fn string(value: json.Value) ![]const u8 {
    return if (value == .string) value.string else error.NotAText;
}

/// The object {}; what Zig writes as .{} is an empty array for JSON.
pub const empty: struct {} = .{};

/// A target, such as "tool:grep", and its handler.
pub const Handler = struct { []const u8, *const fn (*Call) anyerror!Reply };

/// Makes the plugin: comptime { _ = &perdure.Plugin(@embedFile("name.json"), &handlers).perdure_plugin_1; }
pub fn Plugin(comptime manifest: []const u8, comptime handlers: []const Handler) type {
    return struct {
        const manifest_bytes: [manifest.len]u8 linksection(".perdure.manifest") = manifest[0..manifest.len].*;
        const note linksection(".note.perdure") = c.pdr_note{
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

        fn start(_: ?*anyopaque, given: [*c]const c.pdr_call) callconv(.c) i32 {
            const target = slice(given.*.target);
            inline for (handlers ++ defaults) |handler| {
                if (std.mem.eql(u8, handler[0], target)) return run(given, handler[1]);
            }
            if (std.mem.startsWith(u8, target, "task.abort:")) return run(given, aborted);
            return c.PDR_E_UNSUPPORTED;
        }

        pub export fn perdure_plugin_1(host: [*c]const c.pdr_host, out: [*c]c.pdr_plugin, err: [*c]c.pdr_errbuf) i32 {
            // So that they are not left out as unused.
            std.mem.doNotOptimizeAway(&manifest_bytes);
            std.mem.doNotOptimizeAway(&note);
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
    };
}

// ---- what every plugin answers that has nothing to say

const defaults = [_]Handler{ .{ "settings.changed", Call.nothing }, .{ "selftest", tested } };

fn tested(_: *Call) !Reply {
    return .{ .json = "{\"checks\":[]}" };
}

fn aborted(call: *Call) !Reply {
    return call.object(.{ .state = .{ .status = "terminal", .outcome = .{ .status = "aborted" } } });
}

// ---- the tables of the host

var calls: *const c.pdr_calls_1 = undefined;
var invoke: *const c.pdr_invoke_1 = undefined;

const Wait = struct {
    memory: std.mem.Allocator,
    done: c.sem_t = undefined,
    status: i32 = 0,
    /// The value, or the sentence of an error that the model may read.
    result: std.mem.Allocator.Error![]u8 = "",

    fn finish(arg: ?*anyopaque, _: c.pdr_id, status: i32, value: [*c]const c.pdr_blob, err: [*c]const c.pdr_err) callconv(.c) void {
        const wait: *Wait = @ptrCast(@alignCast(arg));
        wait.status = status;
        if (value != null) wait.result = wait.memory.dupe(u8, value.*.ptr[0..value.*.len]);
        if (err != null and err.*.flags & c.PDR_ERR_USER_VISIBLE != 0)
            wait.result = wait.memory.dupe(u8, slice(err.*.message));
        _ = c.sem_post(&wait.done);
    }
};

/// Runs a handler and answers the call: with its reply, its sentence, or the name of its error.
fn run(given: [*c]const c.pdr_call, handler: *const fn (*Call) anyerror!Reply) i32 {
    var arena = std.heap.ArenaAllocator.init(std.heap.c_allocator);
    defer arena.deinit();
    var call = Call{
        .id = given.*.id,
        .target = slice(given.*.target),
        .input = .null,
        .memory = arena.allocator(),
    };
    const reply = reply_of(given, handler, &call) catch |failure| {
        var err = std.mem.zeroes(c.pdr_err);
        err.size = @sizeOf(c.pdr_err);
        err.code = c.PDR_E_INTERNAL;
        err.flags = if (call.sentence == null) 0 else c.PDR_ERR_USER_VISIBLE;
        err.message = str(call.sentence orelse @errorName(failure));
        _ = calls.complete.?(calls.ctx, call.id, err.code, null, &err);
        return c.PDR_OK;
    };
    const value = switch (reply) {
        .json => |bytes| blob("application/json", bytes),
        .text => |bytes| blob("text/plain", bytes),
    };
    _ = calls.complete.?(calls.ctx, call.id, c.PDR_OK, &value, null);
    return c.PDR_OK;
}

fn reply_of(given: [*c]const c.pdr_call, handler: *const fn (*Call) anyerror!Reply, call: *Call) !Reply {
    const input = given.*.input.*;
    call.input = try json.parseFromSliceLeaky(json.Value, call.memory, input.ptr[0..input.len], .{});
    return handler(call);
}

fn refuse(err: [*c]c.pdr_errbuf, sentence: []const u8) i32 {
    if (err != null and err.*.buf != null) {
        err.*.code = c.PDR_E_UNSUPPORTED;
        err.*.len = @min(err.*.cap, sentence.len);
        @memcpy(err.*.buf[0..err.*.len], sentence[0..err.*.len]);
    }
    return c.PDR_E_UNSUPPORTED;
}

// ---- bytes

fn padded(comptime text: []const u8) [32]u8 {
    var bytes = std.mem.zeroes([32]u8);
    @memcpy(bytes[0..text.len], text);
    return bytes;
}

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
