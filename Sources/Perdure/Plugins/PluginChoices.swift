import PerdureModel
import PerdurePluginHost

/// What an operator decides about a plugin; what is absent stays as it is.
public struct PluginChoices: Sendable {
  /// The path of the signature; absent: the name of the plugin with `.minisig` behind it.
  public var signaturePath: String?
  /// The public key of its signer, as it stands in `minisign.pub`; absent: the one its id belongs
  /// to, or else the one in a file `minisign.pub` or `NAME.so.pub` beside it.
  public var signerKey: String?
  /// Whether a plugin without a signature will do.
  public var allowsUnsigned = false
  /// Whether the plugin may have another signer than before.
  public var replacesSigner = false
  /// Whether it counts in every conversation, first of all.
  public var isPinned: Bool?
  /// Whether nothing may go on without it.
  public var isRequired: Bool?
  /// Where it runs.
  public var isolation: Isolation?
  /// Whether an upgrade may lead to an older version.
  public var allowsDowngrade = false
  /// Whether a new version that does not take over the state of the old one may go without it.
  public var discardsState = false

  /// Makes choices that ask for a plugin signed by the known signer.
  public init() {}

  var trust: TrustOptions {
    get throws {
      var trust = TrustOptions()
      trust.key = try signerKey.map { text throws(PerdureError) in try SignerKey(text) }
      trust.allowsUnsigned = allowsUnsigned
      trust.replacesSigner = replacesSigner
      return trust
    }
  }

  var options: InstallOptions {
    var options = InstallOptions()
    options.isPinned = isPinned
    options.isRequired = isRequired
    options.isolation = isolation?.rawValue
    options.allowsDowngrade = allowsDowngrade
    return options
  }
}

/// What becomes of a plugin that somebody needs and that is to go.
public enum PluginRemoval: String, Sendable {
  /// It stays, and the error lists who needs it.
  case refuse
  /// It takes no more calls, and goes when those that are under way have ended; tasks still keep it.
  case drain
  /// It goes: calls are cancelled, and its tasks are blocked until it is installed again.
  case force
}
