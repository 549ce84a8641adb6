//! Circles in a graph: its strongly connected components of more than one node, and a shortest cycle in each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Edges by the node they start from.
pub type Graph<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Returns each strongly connected component of two or more nodes, sorted.
pub fn components<'a>(graph: &Graph<'a>) -> Vec<BTreeSet<&'a str>> {
    let reached: BTreeMap<_, _> = graph
        .keys()
        .map(|node| (*node, reachable(graph, node)))
        .collect();
    let mut components = BTreeSet::new();
    for (node, targets) in &reached {
        let is_both_ways = |other: &&&str| reached.get(**other).is_some_and(|it| it.contains(node));
        let mut component: BTreeSet<_> = targets.iter().filter(is_both_ways).copied().collect();
        component.insert(node);
        if component.len() > 1 {
            components.insert(component);
        }
    }
    components.into_iter().collect()
}

fn reachable<'a>(graph: &Graph<'a>, start: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(node) = open.pop() {
        for next in graph.get(node).into_iter().flatten() {
            if reached.insert(*next) {
                open.push(next);
            }
        }
    }
    reached
}

/// Returns the nodes of a shortest cycle within `component`, in order.
pub fn shortest<'a>(graph: &Graph<'a>, component: &BTreeSet<&'a str>) -> Vec<&'a str> {
    component
        .iter()
        .filter_map(|start| cycle_from(graph, component, start))
        .min_by_key(Vec::len)
        .unwrap_or_default()
}

fn cycle_from<'a>(
    graph: &Graph<'a>,
    component: &BTreeSet<&'a str>,
    start: &'a str,
) -> Option<Vec<&'a str>> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(node) = open.pop_front() {
        for next in graph.get(node)?.intersection(component) {
            if *next == start {
                let mut way = vec![node];
                while let Some(previous) = way.last().and_then(|node| before.get(node)) {
                    way.push(previous);
                }
                way.reverse();
                return Some(way);
            }
            if !before.contains_key(next) {
                before.insert(next, node);
                open.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_found_with_a_shortest_cycle() {
        let mut graph = Graph::new();
        for edge in ["a b", "b c", "c a", "c b", "c d", "d e", "f d", "e e"] {
            let (from, to) = edge.split_once(' ').unwrap();
            graph.entry(from).or_default().insert(to);
            graph.entry(to).or_default();
        }
        let found = components(&graph);
        assert_eq!(found, [BTreeSet::from(["a", "b", "c"])]);
        assert_eq!(shortest(&graph, &found[0]), ["b", "c"]);
    }
}
