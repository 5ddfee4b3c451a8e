internal import PerdureModel

/// What whoever installs a plugin says about its signer.
package struct TrustOptions: Sendable {
  /// The key that must have signed it.
  package var key: SignerKey?
  /// Whether a plugin without a signature will do.
  package var allowsUnsigned = false
  /// Whether the plugin may have another signer than before.
  package var replacesSigner = false

  /// Makes options that ask for a signature of the known signer.
  package init() {}
}

/// Decides whose plugin a file is.
struct Trust {
  let id: String
  /// For sentences.
  let path: String
  /// Whom the id was trusted to before.
  let pinned: SignerKey?
  let options: TrustOptions

  /// Gives the signer, or `nil` for a plugin that is accepted without one; throws `plugin_refused`.
  ///
  /// `beside` is the key that came with the file: it counts if there is no other.
  func signer(
    of bytes: [UInt8],
    _ signature: SignatureFile?,
    beside: SignerKey?
  ) throws(PerdureError) -> SignerKey? {
    guard let signature else {
      try acceptUnsigned()
      return nil
    }
    let key = try key(for: signature, beside: beside)
    guard signature.isGood(for: bytes, by: key) else {
      throw refused(
        "has a signature that does not fit it or its comment",
        "get the plugin and its .minisig again from whoever publishes it"
      )
    }
    return key
  }

  private func acceptUnsigned() throws(PerdureError) {
    if let pinned, !options.replacesSigner {
      throw refused(
        "is not signed, and \(id) belongs to the signer \(pinned.id)",
        "get it with its .minisig; to give up the signer, add --replace-signer --allow-unsigned"
      )
    }
    guard options.allowsUnsigned, options.key == nil else {
      throw refused(
        "is not signed",
        options.key == nil
          ? "put its .minisig beside it, or accept it as it is with --allow-unsigned"
          : "put its .minisig beside it, or name it with --sig"
      )
    }
  }

  private func key(
    for signature: SignatureFile,
    beside: SignerKey?
  ) throws(PerdureError) -> SignerKey {
    if let given = options.key {
      if let pinned, pinned != given, !options.replacesSigner { throw changed(given.id, pinned) }
      guard given.number == signature.keyNumber else {
        throw refused(
          "is signed by \(signature.keyID), and not by the given key \(given.id)",
          "give the key of its signer with --key"
        )
      }
      return given
    }
    if let pinned {
      guard pinned.number == signature.keyNumber else {
        throw changed(signature.keyID, pinned)
      }
      return pinned
    }
    guard let beside, beside.number == signature.keyNumber else {
      throw refused(
        "is signed by \(signature.keyID), whose key is not known",
        "give the signer's key with --key, as it stands in minisign.pub"
      )
    }
    return beside
  }

  private func changed(_ found: String, _ pinned: SignerKey) -> PerdureError {
    refused(
      "is signed by \(found), and \(id) belongs to the signer \(pinned.id)",
      "ask whoever publishes it; if the key was really replaced, add --replace-signer --key KEY"
    )
  }

  private func refused(_ what: String, _ hint: String) -> PerdureError {
    PluginFiles.refused(path, what, hint)
  }
}
