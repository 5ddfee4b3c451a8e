/// What the documentation says of an operation; made from the table that serves it.
package struct OperationListing: Sendable {
  package let name: String
  /// The letters of the situations in which it is legal.
  package let classes: String
  /// Whether it may be asked for without a function that gets the result.
  package let isOneWay: Bool
  /// Whether the deadline of the call stands still while it is under way.
  package let pauses: Bool
  /// Its members with their types; `?` marks one that may be absent.
  package let members: [(name: String, type: String, isRequired: Bool)]

  /// All operations that this host serves.
  package static let all: [OperationListing] = OperationSchema.served.map { schema in
    OperationListing(
      name: schema.name,
      classes: schema.classes.text,
      isOneWay: schema.isOneWay,
      pauses: schema.pauses,
      members: schema.members.map { ($0.name, $0.type.text, $0.isRequired) }
    )
  }

  /// The line of the table in the documentation.
  package var line: String {
    let marks = (isOneWay ? " °" : "") + (pauses ? " ⏸" : "")
    let input = members.map { member in
      "`\(member.name)\(member.isRequired ? "" : "?")`: \(member.type)"
    }
    return "| `\(name)`\(marks) | \(classes) | \(input.joined(separator: ", ")) |"
  }
}

/// How a member of the Swift API is reached by plugins.
package struct OperationCoverage: Sendable {
  /// The member, as Swift code names it.
  package let member: String
  /// Operations, parts of inputs, targets or members of the manifest; empty if it is not offered.
  package let messages: [String]
  /// What is to be said about it.
  package let remark: String

  private init(_ member: String, _ messages: String..., remark: String = "") {
    self.member = member
    self.messages = messages
    self.remark = remark
  }

  /// The line of the table in the documentation.
  package var line: String {
    let names = messages.map { "`\($0)`" }.joined(separator: ", ")
    let text = messages.isEmpty ? "not offered" : names
    return "| \(member) | \(text)\(remark.isEmpty ? "" : "; \(remark)") |"
  }

  /// The members of the Swift API, in the order of the documentation.
  package static let all: [OperationCoverage] = [
    OperationCoverage("`TaskRun.id`, `conversationId`", "ctx.task", "ctx.conversation"),
    OperationCoverage("`TaskRun.record`, `input`, `checkpoint`", "task", remark: "in the input"),
    OperationCoverage("`TaskRun.isCancelled`", "on_cancel", "cancelled", remark: "tables of C"),
    OperationCoverage("`TaskRun.now`", "clock"),
    OperationCoverage("`TaskRun.report`", "report"),
    OperationCoverage("`TaskRun.durable`", "barrier"),
    OperationCoverage("`TaskRun.commit`", "commit", "tx.begin", remark: "`tx.begin` if it reads"),
    OperationCoverage("`TaskRun.memo`", "memo"),
    OperationCoverage("`TaskRun.conversation`", "conversation.get"),
    OperationCoverage("`BoundConversation.submit`", "conversation.submit"),
    OperationCoverage("`BoundConversation.abort`", "conversation.abort"),
    OperationCoverage("`BoundConversation.waitForIdle`", "conversation.wait"),
    OperationCoverage("`BoundSubmission.wait`, `answer`", "submission.wait", "entry.get"),
    OperationCoverage("`BoundSubmission.status`", "submission.get"),
    OperationCoverage("`BoundSubmission.abort`", "submission.abort"),
    OperationCoverage("`TaskRun.task`", "task.get"),
    OperationCoverage("`TaskRun.waitForTask`", "task.wait"),
    OperationCoverage("`TaskRun.outcomes`", "task.outcomes"),
    OperationCoverage("`TaskRun.entry`", "entry.get"),
    OperationCoverage("`TaskRun.context`", "context.get"),
    OperationCoverage("`TaskRun.value(_:of:key:)`, `asOf:`", "document.get"),
    OperationCoverage("`TaskRun.changes(of:)`, `state(of:)`", "document.watch"),
    OperationCoverage(
      "`TaskRun.sleep(until:at:)`",
      "commit",
      remark: "with the state `sleeping`; `timer.wait` waits in memory"
    ),
    OperationCoverage("`TaskRun.ownedTasks`", "tasks.scan", remark: "`owner: \"self\"`"),
    OperationCoverage("`TaskRun.abortOwned`", "task.abort"),
    OperationCoverage("hooks of task types", "hooks.each"),
    OperationCoverage("settings", "settings.get"),
    OperationCoverage("installed extensions", "registry.get"),
    OperationCoverage("agent", "agent.get"),
    OperationCoverage(
      "models",
      "model.list",
      "model.get",
      "model.complete",
      "model.stream",
      "model.deferred"
    ),
    OperationCoverage("`TaskRun.environment`, `ToolCall.env`, `PromptInput.env`", "env.info"),
    OperationCoverage(
      "`Environment`: files",
      "env.path",
      "env.stat",
      "env.open",
      "env.read",
      "env.lines",
      "env.close",
      "env.write",
      "env.rename",
      "env.remove",
      "env.mkdir",
      "env.temp",
      "env.list",
      "env.files"
    ),
    OperationCoverage("`Environment.watch`, `execute`", "env.watch", "env.exec"),
    OperationCoverage("`ToolCall.callId`, `taskId`, `outputWindow`", "tool:NAME"),
    OperationCoverage("`ToolCall.output`, `details`, `diagnostic`", "emit"),
    OperationCoverage("awaiting `details`", "output.flush"),
    OperationCoverage("`ToolCall.retainedOutput`", "output.retained"),
    OperationCoverage("`ToolCall.createTask`", "commit", remark: "with `task.create`"),
    OperationCoverage("`ToolCall.executeTool`", "tool.call"),
    OperationCoverage("`ToolCall.agent().tools`", "tools.list"),
    OperationCoverage(
      "`HookContext`",
      "memo",
      "document.get",
      "entry.get",
      "task.get",
      "context.get",
      "barrier"
    ),
    OperationCoverage(
      "reads of `Transaction`",
      "conversation.get",
      "conversations.scan",
      "entry.get",
      "entries.scan",
      "task.get",
      "tasks.scan",
      "submission.get",
      remark: "with `tx`"
    ),
    OperationCoverage("`Transaction.latestHeadMarker`", "entries.scan", remark: "`heads`"),
    OperationCoverage("`Transaction.createConversation`", "commit"),
    OperationCoverage("`Transaction.forkConversation`", "commit"),
    OperationCoverage("`Conversation.configure`", "commit"),
    OperationCoverage("`Transaction.append`", "commit"),
    OperationCoverage("`Transaction.update`, `edit`, `value`", "commit", "document.get"),
    OperationCoverage("`Transaction.retire`", "commit"),
    OperationCoverage("surgery of the inbox", remark: "`conversation.submit` is the way"),
    OperationCoverage("`Wrap`: the tool or section inside", "next"),
    OperationCoverage("`Wrap`: its environment or models", remark: "`override` is"),
    OperationCoverage("`PromptInput`", "section:KEY", "document.get"),
    OperationCoverage("`TaskType.initial`", "task.initial:TYPE"),
    OperationCoverage("`Phase`", "task:TYPE@VERSION/PHASE"),
    OperationCoverage("`TaskType` abort", "task.abort:TYPE@VERSION"),
    OperationCoverage("`TaskType` migration", "task.migrate:TYPE"),
    OperationCoverage("`Document` migration", "document.migrate:KIND"),
    OperationCoverage("`Document.checkpointWhen`", "base", remark: "a rule, no predicate"),
    OperationCoverage("`Tool.prepareArguments`", "tool.prepare:NAME"),
    OperationCoverage("`conversationCreated`", "hook:conversationCreated", "create"),
  ]
}
