public import PerdureValue

/// What went wrong, on its way from the host to the plugin or back.
///
/// What a handler throws fails its call: this error as it is, any other one as an internal error
/// that only the operator reads.
public struct PluginError: Error, Sendable, Equatable, CustomStringConvertible {
  /// What kind of failure it is; the numbers are those of `perdure.h`.
  public struct Code: RawRepresentable, Sendable, Hashable {
    public let rawValue: Int32

    /// Makes a code, also one that this version does not name.
    public init(rawValue: Int32) { self.rawValue = rawValue }

    public static let cancelled = Code(rawValue: -1)
    public static let timeout = Code(rawValue: -2)
    /// The call, request or handle is over.
    public static let stale = Code(rawValue: -3)
    /// The plugin was retired.
    public static let gone = Code(rawValue: -4)
    public static let busy = Code(rawValue: -5)
    public static let wouldBlock = Code(rawValue: -6)
    public static let invalid = Code(rawValue: -7)
    public static let encoding = Code(rawValue: -8)
    public static let denied = Code(rawValue: -9)
    public static let unsupported = Code(rawValue: -10)
    public static let `internal` = Code(rawValue: -11)
    /// Another plugin crashed, was killed or broke the contract.
    public static let pluginFault = Code(rawValue: -12)
  }

  /// What else is known of the failure; the bits are those of `perdure.h`.
  public struct Traits: OptionSet, Sendable, Hashable {
    public let rawValue: UInt32

    /// Makes traits of bits, also of such that this version does not name.
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    public static let retryable = Traits(rawValue: 1)
    public static let cancelled = Traits(rawValue: 2)
    public static let timeout = Traits(rawValue: 4)
    /// The model may read the message.
    public static let userVisible = Traits(rawValue: 8)
    public static let pluginBug = Traits(rawValue: 16)
  }

  public var code: Code
  /// One sentence: what, where, what to do.
  public var message: String
  /// An object with more; absent: nothing is known.
  public var detail: JSON?
  public var traits: Traits

  /// Makes an error that only the operator reads.
  public init(_ code: Code, _ message: String, detail: JSON? = nil, traits: Traits = []) {
    self.code = code
    self.message = message
    self.detail = detail
    self.traits = traits
  }

  /// Makes an error whose sentence the model may read: `PluginError("the file is not there")`.
  public init(_ message: String) {
    self.init(.internal, message, traits: .userVisible)
  }

  /// What happened precisely, such as `conflict`; absent if nobody said.
  public var reason: String? { detail?["reason"]?.text }

  public var description: String { message }

  /// What a handler threw, as an error that can cross the border.
  init(_ error: any Error) {
    switch error {
    case let error as PluginError: self = error
    case is CancellationError: self.init(.cancelled, "the call was cancelled", traits: .cancelled)
    default: self.init(.internal, "the plugin failed: \(error)")
    }
  }

  /// An error of the kit with a reason from the list of the contract.
  init(_ code: Code, _ message: String, reason: String) {
    self.init(code, message, detail: ["reason": .string(reason)])
  }
}
