public import PerdureValue

/// Code that is called at a point of a task, such as before a request or after a call.
///
/// At each point changing observers come first, then changing guards, guards and observers, each
/// in the order of their extensions: so those who decide see what will run, and those who watch
/// see what did. Hooks run one after another, and again after a crash, so they must be repeatable;
/// a decision that must not be made twice goes into a memo.
public struct Hook: Sendable {
  /// What a failure means.
  public enum Role: String, Sendable {
    /// A hook that fails is reported, and things go on without it.
    case observer
    /// A hook that may deny; one that throws, hangs or answers nonsense denies.
    case `guard`
  }

  /// Where hooks are called.
  public enum Point: Sendable, Hashable {
    case beforeRequest, afterResponse, onYield, afterTools
    case beforeTool, afterTool, onAbort
    case beforeCompact
    /// After a conversation has been created.
    case conversationCreated
    /// A point of a task type, by the kind of its tasks and its own name.
    case named(task: String, name: String)
  }

  /// The code itself, with the form that its point asks for.
  public enum Handler: Sendable {
    case beforeRequest(
      @Sendable (PendingRequest, any HookContext) async throws -> RequestDecision
    )
    case afterResponse(@Sendable (JSON, any HookContext) async throws -> Void)
    case onYield(@Sendable (JSON, any HookContext) async throws -> JSON?)
    case afterTools(@Sendable (EntryID, [EntryID], any HookContext) async throws -> Void)
    case beforeTool(@Sendable (HookedCall, any HookContext) async throws -> CallDecision)
    case afterTool(
      @Sendable (HookedCall, ToolResult, any HookContext) async throws -> ResultDecision
    )
    case onAbort(
      @Sendable (HookedCall, ToolResult, any HookContext) async throws -> ResultDecision
    )
    case beforeCompact(
      @Sendable (PendingCompaction, any HookContext) async throws -> CompactionDecision
    )
    case conversationCreated(
      @Sendable (ConversationRecord, AgentInfo, any ContributionReads) async throws -> Void
    )
    case named(
      task: String,
      name: String,
      @Sendable (JSON, any HookContext) async throws -> HookAnswer
    )
  }

  public let role: Role
  /// Whether it may change what it is shown.
  public let changes: Bool
  /// The tools at whose calls it is called, `*` standing for any rest of a name; absent: all.
  public let tools: [String]?
  /// How long it may take.
  public let deadline: Duration
  public let handler: Handler
  /// Where it stands among the hooks of its rank.
  public var order = ContributionOrder()
  /// Whether it ends in time by itself, so that nobody has to watch it.
  package var endsInTime = false
  /// Whether a failure denies although the hook is no guard.
  package var failsClosed: (@Sendable () -> Bool)?

  /// Makes a hook; without a deadline a guard has ten seconds and an observer five.
  package init(
    _ handler: Handler,
    _ role: Role,
    changes: Bool,
    tools: [String]? = nil,
    _ deadline: Duration?
  ) {
    self.handler = handler
    self.role = role
    self.changes = changes
    self.tools = tools
    self.deadline = deadline ?? (role == .guard ? .seconds(10) : .seconds(5))
  }

  /// Where it is called.
  public var point: Point {
    switch handler {
    case .beforeRequest: .beforeRequest
    case .afterResponse: .afterResponse
    case .onYield: .onYield
    case .afterTools: .afterTools
    case .beforeTool: .beforeTool
    case .afterTool: .afterTool
    case .onAbort: .onAbort
    case .beforeCompact: .beforeCompact
    case .conversationCreated: .conversationCreated
    case .named(let task, let name, _): .named(task: task, name: name)
    }
  }
}

/// Each takes its deadline; without one a guard has ten seconds and an observer five.
extension Hook {
  /// Makes a hook that sees each request before it is sent, and may change its messages or, as a
  /// guard, refuse it.
  public static func beforeRequest(
    role: Role = .observer,
    changes: Bool = true,
    deadline: Duration? = nil,
    _ body: @escaping @Sendable (PendingRequest, any HookContext) async throws -> RequestDecision
  ) -> Hook {
    Hook(.beforeRequest(body), role, changes: changes, deadline)
  }

  /// Makes a hook that sees each answer of a model, failed ones too, before anything follows.
  public static func afterResponse(
    deadline: Duration? = nil,
    _ body: @escaping @Sendable (_ message: JSON, any HookContext) async throws -> Void
  ) -> Hook {
    Hook(.afterResponse(body), .observer, changes: false, deadline)
  }

  /// Makes a hook that sees the answer with which a run would end; with the user content that it
  /// returns, a text or a list of items, the run goes on.
  ///
  /// The first one wins, but what people have queued meanwhile comes before it.
  public static func onYield(
    deadline: Duration? = nil,
    _ body: @escaping @Sendable (_ message: JSON, any HookContext) async throws -> JSON?
  ) -> Hook {
    Hook(.onYield(body), .observer, changes: true, deadline)
  }

  /// Makes a hook that sees the entries of a finished round: the answer that called, and the results
  /// in the order of the calls.
  public static func afterTools(
    deadline: Duration? = nil,
    _ body:
      @escaping @Sendable (
        _ assistant: EntryID, _ results: [EntryID], any HookContext
      ) async throws -> Void
  ) -> Hook {
    Hook(.afterTools(body), .observer, changes: false, deadline)
  }

  /// Makes a hook that sees each call before it is made, and may change its arguments or, as a
  /// guard, deny it or ask somebody.
  public static func beforeTool(
    role: Role = .guard,
    changes: Bool = true,
    tools: [String]? = nil,
    deadline: Duration? = nil,
    _ body: @escaping @Sendable (HookedCall, any HookContext) async throws -> CallDecision
  ) -> Hook {
    Hook(.beforeTool(body), role, changes: changes, tools: tools, deadline)
  }

  /// Makes a hook that sees the result of each call that was made, and may change it or, as a
  /// guard, keep it from the model.
  public static func afterTool(
    role: Role = .observer,
    changes: Bool = true,
    tools: [String]? = nil,
    deadline: Duration? = nil,
    _ body:
      @escaping @Sendable (
        HookedCall, ToolResult, any HookContext
      ) async throws -> ResultDecision
  ) -> Hook {
    Hook(.afterTool(body), role, changes: changes, tools: tools, deadline)
  }

  /// Makes a hook that sees the result of each aborted call, and may change it.
  public static func onAbort(
    changes: Bool = true,
    tools: [String]? = nil,
    deadline: Duration? = nil,
    _ body:
      @escaping @Sendable (
        HookedCall, ToolResult, any HookContext
      ) async throws -> ResultDecision
  ) -> Hook {
    Hook(.onAbort(body), .observer, changes: changes, tools: tools, deadline)
  }

  /// Makes a hook that sees each compaction before its summary is made, and may decline it or bring
  /// the summary.
  public static func beforeCompact(
    role: Role = .observer,
    changes: Bool = true,
    deadline: Duration? = nil,
    _ body:
      @escaping @Sendable (
        PendingCompaction, any HookContext
      ) async throws -> CompactionDecision
  ) -> Hook {
    Hook(.beforeCompact(body), role, changes: changes, deadline)
  }

  /// Makes a hook that sees each new conversation once it is on disk.
  ///
  /// It is called in the background, at most once, and not at all if the process ends before; what
  /// must be done for every conversation belongs into the commit that creates it.
  public static func conversationCreated(
    deadline: Duration? = nil,
    _ body:
      @escaping @Sendable (
        ConversationRecord, AgentInfo, any ContributionReads
      ) async throws -> Void
  ) -> Hook {
    Hook(.conversationCreated(body), .observer, changes: false, deadline)
  }

  /// Makes a hook for a point that a task type names itself.
  public static func task(
    _ kind: String,
    _ name: String,
    role: Role = .observer,
    changes: Bool = true,
    deadline: Duration? = nil,
    _ body: @escaping @Sendable (_ arguments: JSON, any HookContext) async throws -> HookAnswer
  ) -> Hook {
    Hook(.named(task: kind, name: name, body), role, changes: changes, deadline)
  }
}
