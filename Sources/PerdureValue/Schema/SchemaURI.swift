/// A reference to a resource (RFC 3986), as far as schemas use them: without its fragment.
struct SchemaURI: Hashable {
  private var scheme: String?
  private var authority: String?
  private var path: String
  private var query: String?

  /// What a document without an identifier is called.
  static let nameless = SchemaURI(scheme: nil, authority: nil, path: "", query: nil)

  /// Reads a reference and the fragment behind it, if there is one.
  static func split(_ text: String) -> (uri: SchemaURI, fragment: String?) {
    var rest = Substring(text)
    var fragment: String?
    if let hash = rest.firstIndex(of: "#") {
      fragment = String(rest[rest.index(after: hash)...])
      rest = rest[..<hash]
    }
    var scheme: String?
    let name = rest.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || "+-.".contains($0)) }
    if let first = name.first, first.isLetter, rest[name.endIndex...].first == ":" {
      scheme = name.lowercased()
      rest = rest[name.endIndex...].dropFirst()
    }
    var query: String?
    if let mark = rest.firstIndex(of: "?") {
      query = String(rest[rest.index(after: mark)...])
      rest = rest[..<mark]
    }
    var authority: String?
    if rest.hasPrefix("//") {
      rest = rest.dropFirst(2)
      let end = rest.firstIndex(of: "/") ?? rest.endIndex
      authority = String(rest[..<end])
      rest = rest[end...]
    }
    let uri = SchemaURI(scheme: scheme, authority: authority, path: String(rest), query: query)
    return (uri, fragment)
  }

  /// What this reference means in a resource of this name (section 5.2.2 of the RFC).
  func resolved(in base: SchemaURI) -> SchemaURI {
    if scheme != nil { return with(path: Self.withoutDots(path)) }
    var result = self
    result.scheme = base.scheme
    if authority != nil { return result.with(path: Self.withoutDots(path)) }
    result.authority = base.authority
    if path.isEmpty {
      result.path = base.path
      if query == nil { result.query = base.query }
    } else if path.hasPrefix("/") {
      result.path = Self.withoutDots(path)
    } else if let slash = base.path.lastIndex(of: "/") {
      result.path = Self.withoutDots(base.path[...slash] + path)
    } else {
      result.path = Self.withoutDots(base.authority == nil ? path : "/" + path)
    }
    return result
  }

  private func with(path: String) -> SchemaURI {
    var result = self
    result.path = path
    return result
  }

  private static func withoutDots(_ path: String) -> String {
    guard path.contains("/") else { return path }
    let isRooted = path.hasPrefix("/")
    var kept: [Substring] = []
    let segments = path.split(separator: "/", omittingEmptySubsequences: false)
    for segment in isRooted ? segments.dropFirst() : segments[...] {
      switch segment {
      case ".": break
      case "..": _ = kept.popLast()
      default: kept.append(segment)
      }
    }
    if segments.last == "." || segments.last == ".." { kept.append("") }
    return (isRooted ? "/" : "") + kept.joined(separator: "/")
  }
}
