/**
 * A conversation as a tree: versions of a turn share their parent. The reader sees one path through it.
 * No DOM, no network.
 */

const ROOT = "root";

function childrenByParent(messages) {
  const known = new Set(messages.map(({ id }) => id));
  const children = new Map();
  for (const message of messages) {
    const parent = known.has(message.parent_id) ? message.parent_id : ROOT;
    if (children.has(parent)) children.get(parent).push(message);
    else children.set(parent, [message]);
  }
  return children;
}

/**
 * The messages on the reader's path from the first to the last, each with its `versions` (ids of the turns that share
 * its parent, oldest first). `choices` maps a parent to the version chosen there; the newest is taken elsewhere.
 */
export function visiblePath(messages, choices) {
  const children = childrenByParent(messages);
  const path = [];
  for (let parent = ROOT; ; ) {
    const versions = children.get(parent);
    if (versions === undefined) return path;
    const message = versions.find(({ id }) => id === choices.get(parent)) ?? versions.at(-1);
    path.push({ message, versions: versions.map(({ id }) => id) });
    parent = message.id;
  }
}

/** The key under which a choice between `message` and its other versions is kept. */
export function choiceKey(messages, message) {
  return messages.some(({ id }) => id === message.parent_id) ? message.parent_id : ROOT;
}
