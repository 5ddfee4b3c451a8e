public import PerdureValue

/// What went wrong, for the one who called: a stable code, one sentence, and details.
///
/// The same code stands in logs, in `--json` output and behind the exit status. The message is one
/// clause without a full stop that names the object; `hint` says what to do about it.
public struct PerdureError: Error, Sendable {
  /// An open set of lower-case names.
  public struct Code: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }
    public init(stringLiteral value: String) { rawValue = value }
  }

  /// What kind of failure this is.
  public var code: Code
  /// What happened, where.
  public var message: String
  /// What the reader can do about it, if anything.
  public var hint: String?
  /// Facts for programs.
  public var details: JSON?
  /// What led to this, in words.
  public var cause: String?

  /// Makes an error.
  public init(
    _ code: Code,
    _ message: String,
    hint: String? = nil,
    details: JSON? = nil,
    cause: String? = nil
  ) {
    self.code = code
    self.message = message
    self.hint = hint
    self.details = details
    self.cause = cause
  }
}

extension PerdureError: CustomStringConvertible {
  public var description: String {
    var text = message
    if let cause { text += " (\(cause))" }
    if let hint { text += "; \(hint)" }
    return text
  }
}

extension PerdureError.Code {
  // Reads and transactions
  /// A read of the store was asked for something that cannot be read.
  public static let invalidRequest: Self = "invalid_request"
  /// A table was read after the transaction had written one.
  public static let readAfterWrite: Self = "read_after_write"
  /// A transaction was used after its closure had returned.
  public static let transactionSettled: Self = "transaction_settled"
  /// The Session line was asked for by code that already holds it.
  public static let nestedCommit: Self = "nested_commit"
  /// A batch breaks a rule of the store and was not written.
  public static let invalidBatch: Self = "invalid_batch"
  /// The named record does not exist.
  public static let notFound: Self = "not_found"
  /// A definition and a stored document disagree.
  public static let documentMismatch: Self = "document_mismatch"
  /// The conversation has a run.
  public static let conversationBusy: Self = "conversation_busy"
  /// The conversation is archived and takes no submissions.
  public static let conversationArchived: Self = "conversation_archived"
  /// The conversation was deleted.
  public static let conversationDeleted: Self = "conversation_deleted"
  /// Something refers to the conversation, so it cannot be deleted.
  public static let conversationInUse: Self = "conversation_in_use"
  /// A request id was used for another kind of submission.
  public static let requestIdConflict: Self = "request_id_conflict"
  /// The invocation that this call belongs to is over, or its task is aborted.
  public static let invocationEnded: Self = "invocation_ended"

  // Life of a Session
  /// The Session is closed or closing.
  public static let closed: Self = "closed"
  /// The Session failed; the store must be opened again.
  public static let sessionFailed: Self = "session_failed"
  /// The wait was cancelled; the work goes on.
  public static let cancelled: Self = "cancelled"

  // Stores
  /// Another process owns the store.
  public static let storeInUse: Self = "store_in_use"
  /// Somebody reads the store in a way that forbids this now.
  public static let storeBusy: Self = "store_busy"
  /// Another program wrote to the store while it was open here.
  public static let foreignWriter: Self = "foreign_writer"
  /// The file is not a store that this version can open.
  public static let storeUnreadable: Self = "store_unreadable"
  /// The store cannot be written (permissions, read-only file system, full disk).
  public static let storeUnwritable: Self = "store_unwritable"
  /// What the store holds breaks its own rules.
  public static let storeCorrupt: Self = "store_corrupt"
  /// A storage call failed.
  public static let storageFailed: Self = "storage_failed"
  /// The store needs a feature that this version lacks.
  public static let unsupportedFeature: Self = "unsupported_feature"

  // Plugins
  /// A plugin was refused before or while it was loaded.
  public static let pluginRefused: Self = "plugin_refused"
  /// A plugin broke the contract or crashed.
  public static let pluginFault: Self = "plugin_fault"
  /// Nobody runs the code of a plugin now.
  public static let pluginDown: Self = "plugin_down"

  // Configuration and runs
  /// A registry or selection breaks a rule.
  public static let invalidConfiguration: Self = "invalid_configuration"
  /// A script, argument or file has an error.
  public static let invalidInput: Self = "invalid_input"
}
