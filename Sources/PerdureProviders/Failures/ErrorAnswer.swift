package import PerdureModel
import PerdureValue

/// What a provider answers instead of an answer, read as far as it can be read.
package struct ErrorAnswer {
  /// The status of the answer, or the one that an error inside a stream names.
  var status: Int?
  /// `type` and `code` of the error, in lower case.
  var codes: [String] = []
  /// What it says to people; empty if it says nothing.
  var text = ""
  var isHTML = false
  var retryAfterMs: Int64?
  /// What `x-should-retry` says.
  var shouldRetry: Bool?
  /// Whether it arrived inside a stream that had begun well.
  var isInStream = false
}

extension ErrorAnswer {
  /// Reads an answer with an error status.
  package init(status: Int, body: [UInt8], now: Int64, field: (String) -> String?) {
    self.status = status
    if let json = try? JSON(parsing: body) {
      read(json)
    } else {
      let plain = String(decoding: body.prefix(4096), as: UTF8.self).trimmed
      isHTML = plain.hasPrefix("<")
      text = isHTML ? Self.title(plain) : plain
    }
    shouldRetry = field("x-should-retry").flatMap(Bool.init)
    retryAfterMs = RetryDelay.milliseconds(field: field, text: text, now: now)
  }

  /// Reads an error inside a stream.
  init(inStream json: JSON) {
    isInStream = true
    read(json)
    retryAfterMs = RetryDelay.inText(text)
  }

  private mutating func read(_ json: JSON) {
    let error = json["error"] ?? json
    for key in ["code", "type"] as [JSONString] {
      guard let value = error[key] else { continue }
      if let text = value.text {
        codes.append(text.lowercased())
      } else if status == nil, let number = value.int, (400...599).contains(number) {
        status = Int(number)
      }
    }
    let said = error["message"] ?? error["detail"] ?? json["message"] ?? json["detail"] ?? error
    text = said.text ?? (said.object.map { $0.isEmpty } ?? true ? "" : said.compactText)
  }

  /// Returns the title of a page, or nothing.
  private static func title(_ html: String) -> String {
    // ASCII letters only, so that the bytes of both texts stand at the same places.
    let lowered = html.utf8.map { (0x41...0x5A).contains($0) ? $0 + 0x20 : $0 }
    guard let open = lowered.firstRange(of: Array("<title>".utf8)),
      let close = lowered[open.upperBound...].firstRange(of: Array("</title>".utf8))
    else { return "" }
    return String(decoding: Array(html.utf8)[open.upperBound..<close.lowerBound], as: UTF8.self)
      .trimmed
  }
}

extension ErrorAnswer {
  /// The failure that this answer means.
  package var failure: ProviderFailure {
    let action = action
    let delay = action == .retry ? retryAfterMs : nil
    return ProviderFailure(action, message, retryAfterMs: delay)
  }

  private var action: ProviderFailure.Action {
    if status == 401 || status == 403 || hasCode(Self.authenticationCodes) {
      return status == 403 && says(Self.quotaCodes) ? .quota : .authentication
    }
    if status == 402 || says(Self.quotaCodes) { return .quota }
    // A message about rate limits may advertise the billing page; the delay tells them apart.
    if retryAfterMs == nil, shouldRetry != true, says(Self.quotaWords) { return .quota }
    if isOverflow { return .overflow }
    if let shouldRetry { return shouldRetry ? .retry : .stop }
    switch status {
    case 408, 409, 425, 429, 498: return .retry
    case let status? where status >= 500: return .retry
    case nil where isInStream: return hasCode(Self.requestCodes) ? .stop : .retry
    default: return .stop
    }
  }

  private var isOverflow: Bool {
    if status == 429 { return false }
    if OverflowWording.matches(([text] + codes).joined(separator: " ")) { return true }
    // One provider answers so, without a body, when the context is too long.
    return status == 413 || status == 400 && text.isEmpty && codes.isEmpty
  }

  private func hasCode(_ known: [String]) -> Bool { codes.contains(where: known.contains) }

  private func says(_ words: [String]) -> Bool {
    let said = ([text.lowercased()] + codes).joined(separator: " ")
    return words.contains { said.contains($0) }
  }

  private static let authenticationCodes = ["invalid_api_key", "authentication_error"]
  private static let requestCodes = [
    "invalid_request_error", "invalid_prompt", "not_found_error", "model_not_found",
    "content_filter",
  ]
  private static let quotaCodes = [
    "insufficient_quota", "credit_balance", "billing_error", "spend_limit", "insufficient balance",
  ]
  private static let quotaWords = [
    "usage limit", "available balance", "insufficient quota", "out of budget", "quota exceeded",
    "exceeded your current quota", "billing", "subscription", "prepay",
  ]

  private var message: String {
    let said = text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    let short = said.count > 500 ? said.prefix(500) + "…" : said[...]
    guard let status else { return short.isEmpty ? "the provider reports an error" : String(short) }
    if isHTML {
      let title = short.isEmpty ? "" : " (\"\(short)\")"
      return "HTTP \(status): the server answered with an HTML page\(title)"
    }
    return short.isEmpty ? "HTTP \(status) without an explanation" : "HTTP \(status): \(short)"
  }
}
