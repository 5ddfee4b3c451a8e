//! @NAME@: a plugin for Perdure. perdure.zig beside it makes values of what @SDK_FOLDER@/perdure.h gives.
const std = @import("std");
const perdure = @import("perdure.zig");
const Call = perdure.Call;
const Reply = perdure.Reply;

/// The tool: the schema in @NAME@.json has checked that name is a string.
fn greet(call: *Call) !Reply {
    const name = try perdure.string(call.at(&.{ "arguments", "name" }));
    if (name.len == 0 or name.len > 255) return call.fail("the name must have from 1 to 255 bytes");
    return call.text("Hello, {s}!", .{name});
}
//@if section

/// A section of the prompt: what the model is told beside its tools.
fn section(call: *Call) !Reply {
    return call.text("Whoever is greeted is greeted by name.", .{});
}
//@end
//@if guard

/// A guard: is asked before each call of the tool, and may say no. If it fails, the call is denied.
fn guard(call: *Call) !Reply {
    const name = try perdure.string(call.at(&.{ "call", "arguments", "name" }));
    if (std.mem.eql(u8, name, "nobody"))
        return call.object(.{ .deny = .{ .reason = "nobody must not be greeted" } });
    return call.nothing();
}
//@end
//@if wrap

/// A wrap: runs around the tool, and may change what goes in and what comes out.
fn wrap(call: *Call) !Reply {
    const name = try perdure.string(call.at(&.{ "arguments", "name" }));
    const known = if (std.mem.eql(u8, name, "world")) "World" else name;
    return call.object(try call.ask("next", .{ .arguments = .{ .name = known } }));
}
//@end
//@if task

const greeting = "@ID@.greeting";

/// A tool that begins a durable task and waits for it. After a crash the task goes on where it was, and
/// the call, which runs again, finds it.
fn greet_later(call: *Call) !Reply {
    const tasks = perdure.member(try call.ask("tasks.scan", .{ .owner = "self", .kind = greeting }), &.{"items"});
    const task = if (tasks == .array and tasks.array.items.len > 0)
        perdure.member(tasks.array.items[0], &.{"id"})
    else
        perdure.member(try call.ask("commit", .{ .steps = .{.{
            .do = "task.create",
            .type = greeting,
            .input = .{ .name = call.at(&.{ "arguments", "name" }) },
            .owner = "self",
            .as = "new",
        }} }), &.{ "ids", "new" });
    const record = try call.ask("task.wait", .{ .task = try perdure.integer(task) });
    const text = perdure.member(record, &.{ "state", "outcome", "result", "text" });
    return call.text("{s}", .{try perdure.string(text)});
}

/// The phases of the task. Each ends with a commit of what comes next; a crash repeats it from its
/// beginning. This one rests for 50 ms, and could for a month: a task that sleeps needs no process.
fn rest(call: *Call) !Reply {
    const now = try perdure.integer(perdure.member(try call.ask("clock", perdure.empty), &.{"now"}));
    return call.object(.{ .state = .{
        .status = "sleeping",
        .checkpoint = .{ .phase = "greet" },
        .until = now + 50,
    } });
}

fn greet_at_last(call: *Call) !Reply {
    const name = try perdure.string(call.at(&.{ "task", "input", "name" }));
    const text = try std.fmt.allocPrint(call.memory, "Hello, {s} at last!", .{name});
    return call.object(.{ .state = .{
        .status = "terminal",
        .outcome = .{ .status = "completed", .result = .{ .text = text } },
    } });
}
//@end

const handlers = [_]perdure.Handler{
//@if section
    .{ "section:@NAME@", section },
//@end
//@if guard
    .{ "hook:beforeTool", guard },
//@end
//@if wrap
    .{ "wrap:tool:@NAME@", wrap },
//@end
//@if task
    .{ "tool:@NAME@-later", greet_later },
    .{ "task:" ++ greeting ++ "@1/rest", rest },
    .{ "task:" ++ greeting ++ "@1/greet", greet_at_last },
//@end
    .{ "tool:@NAME@", greet },
};

comptime {
    _ = &perdure.Plugin(@embedFile("@NAME@.json"), &handlers).perdure_plugin_1;
}
