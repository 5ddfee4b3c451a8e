import PerdureModel
import PerdureProviders
import Testing

@Suite struct AddressAndDelayTests {
  @Test(arguments: [
    ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
    ("http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/v1/chat/completions"),
    ("HTTP://localhost", "HTTP://localhost/chat/completions"),
    (
      "https://a.test/openai/deployments/d?api-version=1",
      "https://a.test/openai/deployments/d/chat/completions?api-version=1"
    ),
  ])
  func `the path of the dialect is joined to the base URL`(base: String, url: String) throws {
    #expect(try BaseURL(base).chatCompletions == url)
  }

  @Test(arguments: [
    "", "api.openai.com/v1", "file:///etc/passwd", "http://", "http:///v1", "https://a b/v1",
    "https://a.test/#x", "https://user:secret@a.test/v1", "https://a.test/\u{0}",
  ])
  func `what is no address is refused`(text: String) throws {
    let error = #expect(throws: PerdureError.self) { try BaseURL(text) }
    #expect(error?.code == .invalidConfiguration)
    #expect(error?.description.contains("secret") == false)
  }

  @Test(arguments: [
    ("http://127.0.0.1/v1", true), ("http://127.9.9.9:1", true), ("http://[::1]:80/v1", true),
    ("http://localhost:1", true), ("http://a.localhost", true), ("http://127.example.test", false),
    ("http://localhost.example.test", false), ("http://10.0.0.1", false),
  ])
  func `a server on this machine is known by its host`(text: String, isLoopback: Bool) throws {
    #expect(try BaseURL(text).isLoopback == isLoopback)
  }

  @Test(
    arguments: [
      ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Wed, 21 Oct 2026 07:28:00 GMT", 1_792_567_680_000),
      ("Tue, 29 Feb 2000 23:59:59 GMT", 951_868_799_000), ("Wed, 21 Oct 2026 07:28:00 CET", nil),
      ("Wed, 21 Foo 2026 07:28:00 GMT", nil), ("Wed, 99 Oct 2026 07:28:00 GMT", nil), ("", nil),
      ("Wed, 21 Oct 99999999999999999999 07:28:00 GMT", nil),
    ] as [(String, Int64?)]
  )
  func `dates are read as HTTP writes them`(text: String, milliseconds: Int64?) {
    #expect(HTTPDate.milliseconds(text) == milliseconds)
  }

  @Test(
    arguments: [
      ("try again in 20s", 20_000), ("Please try again in 5.289s.", 5289),
      ("try again in 350ms", 350), ("try again in 1m2.5s", 62_500), ("try again in 6m0s", 360_000),
      ("try again in 5 seconds", 5000), ("Try again in 2 minutes.", 120_000),
      ("try again in a while", nil), ("try again in ", nil), ("try again in 5", nil),
      ("try again in 99999999999999999999999h", nil),
    ] as [(String, Int64?)]
  )
  func `a delay is found in words`(text: String, milliseconds: Int64?) {
    #expect(
      RetryDelay.milliseconds(field: { _ in nil }, text: text, now: 0) == milliseconds
    )
  }

  @Test func `an error of any bytes has a message`() {
    let seed = UInt64.random(in: 0 ... .max)
    print("seed of the random errors: \(seed)")
    var random = SeededGenerator(seed: seed)
    let parts = [
      "<", "<TITLE>", "</title>", "İ", "é", "{\"error\":", "{", "}", "\"message\":", "\"a\"", " ",
      "7",
      "null", "try again in ", "1m", ".", "[]", "\u{0}",
    ]
    for _ in 0..<3000 {
      let count = Int.random(in: 0...12, using: &random)
      let text = (0..<count).map { _ in parts.randomElement(using: &random) ?? "" }.joined()
      var body = Array(text.utf8)
      if Bool.random(using: &random) { body.append(UInt8.random(in: 0 ... .max, using: &random)) }
      let status = Int.random(in: 300...599, using: &random)
      let failure = ErrorAnswer(status: status, body: body, now: 0, field: { _ in nil }).failure
      #expect(failure.message.hasPrefix("HTTP \(status)"), "seed \(seed)")
    }
  }

  @Test(arguments: ["inf", "nan", "-1", "1e300", "0x10p400"])
  func `a delay that is no time is ignored`(value: String) {
    #expect(RetryDelay.milliseconds(field: { _ in value }, text: "", now: 0) == nil)
  }
}
