/// A request to a server; a body makes it a POST.
struct HTTPRequest: Sendable {
  var url: String
  /// Names and values; neither may hold a line break.
  var headers: [(name: String, value: String)] = []
  var body: [UInt8]?
  var connectTimeoutMs: Int64 = 30_000
}

/// The status line and header fields of an answer.
struct HTTPHead: Sendable {
  var status: Int
  var fields: [(name: String, value: String)] = []

  /// The value of the first field of that name, whatever its case.
  subscript(name: String) -> String? {
    fields.first { $0.name.lowercased() == name.lowercased() }?.value
  }
}

/// A piece of an answer.
enum HTTPPart: Sendable {
  case head(HTTPHead)
  case body([UInt8])
  /// The answer is complete. Always last.
  case end
  /// There is no answer, or no more of it. Always last.
  case failed(HTTPFailure)
}

/// Why a transfer failed.
struct HTTPFailure: Error, Sendable {
  /// What can be done about it.
  enum Kind: Sendable {
    /// The network or the server may be better in a while.
    case transient
    /// The connection broke inside the body.
    case broken
    /// The address or the certificates are wrong.
    case permanent
  }

  var kind: Kind
  /// What libcurl says.
  var message: String
}
