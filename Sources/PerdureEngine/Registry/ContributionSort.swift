import PerdureModel
import PerdureValue

/// Puts hooks and wraps of one place into the order in which they count.
enum ContributionSort {
  /// Who brought something, and where it wants to stand.
  struct Item: Sendable {
    var extensionName: String
    var order: ContributionOrder
  }

  /// Returns the positions of the items in order, or `nil` if the wishes lead in a circle.
  ///
  /// Whatever the wishes leave open stays as it is.
  static func positions(_ items: [Item]) -> [Int]? {
    guard items.contains(where: { !$0.order.isEmpty }) else { return Array(items.indices) }
    let followers = followers(of: items)
    var open = Array(repeating: 0, count: items.count)
    for list in followers { for follower in list { open[follower] += 1 } }
    var sorted: [Int] = []
    var isPlaced = Array(repeating: false, count: items.count)
    while sorted.count < items.count {
      guard let next = items.indices.first(where: { !isPlaced[$0] && open[$0] == 0 }) else {
        return nil
      }
      isPlaced[next] = true
      sorted.append(next)
      for follower in followers[next] { open[follower] -= 1 }
    }
    return sorted
  }

  /// The items that come later than each one.
  private static func followers(of items: [Item]) -> [[Int]] {
    var places: [JSONString: [Int]] = [:]
    for (place, item) in items.enumerated() {
      places[JSONString(item.extensionName), default: []].append(place)
    }
    func others(_ names: [String], than own: String) -> [Int] {
      names.filter { !$0.utf8.elementsEqual(own.utf8) }.flatMap { places[JSONString($0)] ?? [] }
    }
    var followers: [[Int]] = Array(repeating: [], count: items.count)
    for (place, item) in items.enumerated() {
      followers[place] += others(item.order.before, than: item.extensionName)
      for earlier in others(item.order.after, than: item.extensionName) {
        followers[earlier].append(place)
      }
    }
    return followers
  }

  /// Returns `values` in order; as they are if the wishes lead in a circle, which no registry lets
  /// happen.
  static func sorted<Value>(_ values: [Value], _ item: (Value) -> Item) -> [Value] {
    if values.count < 2 { return values }
    guard let positions = positions(values.map(item)) else { return values }
    return positions.map { values[$0] }
  }
}

extension InstalledExtension {
  /// Throws `invalidConfiguration` if the wishes of these extensions lead in a circle somewhere.
  static func checkOrders(_ installed: [InstalledExtension]) throws {
    var places: [String: [ContributionSort.Item]] = [:]
    for value in installed {
      for hook in value.hooks {
        let place = "the hooks \(hook.point.text) (rank \(hook.rank))"
        places[place, default: []].append(
          ContributionSort.Item(extensionName: value.name, order: hook.order)
        )
      }
      for wrap in value.wraps {
        places[wrap.place, default: []].append(
          ContributionSort.Item(extensionName: value.name, order: wrap.order)
        )
      }
    }
    for (place, items) in places.sorted(by: { $0.key < $1.key })
    where ContributionSort.positions(items) == nil {
      let names = items.filter { !$0.order.isEmpty }.map(\.extensionName)
      throw PerdureError(
        .invalidConfiguration,
        "the orders of \(place) lead in a circle: \(names.joined(separator: ", "))",
        hint: "change \"order\" in one of these extensions"
      )
    }
  }

  /// Throws `invalidConfiguration` if an extension would replace a tool without being allowed to.
  static func checkClashes(_ installed: [InstalledExtension]) throws {
    var owners: [JSONString: String] = [:]
    for value in installed {
      for tool in value.tools {
        let name = JSONString(tool.tool.name)
        if let owner = owners[name], let replacing = value.replacing,
          !replacing.contains(tool.tool.name)
        {
          throw PerdureError(
            .invalidConfiguration,
            "the tool '\(tool.tool.name)' of \(value.name) is also one of \(owner)",
            hint: "rename one of them, uninstall \(owner), or let the manifest of \(value.name)"
              + " say \"overrides\": true for it"
          )
        }
        owners[name] = value.name
      }
    }
  }
}

extension Wrap {
  /// What it is put around, in words.
  var place: String {
    switch target {
    case .tool(let name, _): "the wraps of the tool '\(name)'"
    case .section(let key, _): "the wraps of the section '\(key)'"
    }
  }
}
