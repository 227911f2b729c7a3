import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rows, sources, words } from './guide-tables.ts';

/** The guide's tables of events, reasons and conditions against the words that the sources write. */

type Pattern = readonly [pattern: RegExp, files?: RegExp];

/** Where the sources name a reason; each word of a match counts, for alternatives stand side by side. */
const agentReasons: readonly Pattern[] = [
  [/\breason: ([^\n]*)/g],
  [/\b(?:\w*R|r)eason = ('\w+')/g],
  [/\bfailed: ('\w+')/g],
  [/\bnormal\(('\w+')/g],
  [/\['(?:Normal|Warning)', ('\w+')/g],
  [/\bbecome\(\w+, '\w+', ('\w+')/g],
  [/('\w+LiveMigratable')/g, /migratable\.ts$/],
  [/('Paused[A-Z]\w+')/g],
];
const agentConditions: readonly Pattern[] = [
  [/\btype: ('\w+')/g, /src\/agent\/vmi\/(?:status|decide|execute)\//],
  [/\bconst type = ('\w+')/g, /src\/agent\/vmi\/(?:status|decide|execute)\//],
  [/Condition\([\w.?]+, ('\w+')/g, /src\/agent\/vmi\/status\//],
];
const controllerReasons: readonly Pattern[] = [
  [/\breason: ('\w+')/g],
  [/\brecord\w*\([^;]*?'(?:Normal|Warning)',\s*('\w+')/g],
  [/\bno\(('\w+')/g],
  [/\b(?:warning|normal|failedWith)\(('\w+')/g],
];

/** What stands beside a reason, or where one would. */
const otherWords = new Set(['True', 'False', 'Normal', 'Warning', 'NoState', 'DiskOrCreate']);

function written(folders: readonly string[], patterns: readonly Pattern[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const [file, text] of sources(folders)) {
    for (const [pattern, where] of patterns) {
      if (where && !where.test(file)) continue;
      for (const [, match = ''] of text.matchAll(pattern)) {
        for (const [, word = ''] of match.matchAll(/'([A-Z]+[a-z]\w*)'/g))
          if (!otherWords.has(word)) found.set(word, file);
      }
    }
  }
  return found;
}

const without = (found: ReadonlyMap<string, string>, documented: ReadonlySet<string>) =>
  [...found].filter(([word]) => !documented.has(word)).map(([word, file]) => `${word} (${file})`);

const tables = rows('events.md', 'Reason').flatMap(([cell = '']) => words(cell));
const conditions = rows('events.md', 'Condition');
const documented = new Set([...tables, ...conditions.flatMap(([, reasons = '']) => words(reasons))]);
const documentedConditions = new Set(conditions.flatMap(([condition = '']) => words(condition)));

const agentFolders = ['src/agent', 'src/launcher'];
const standaloneFolders = ['pod-runner', 'storage', 'supervisor'].map((name) => `src/standalone/${name}`);
const controllerFolders = ['src/controller', ...standaloneFolders];

test('every reason of an event or a condition that agent and launcher write has a row in the guide', () => {
  const found = written(agentFolders, agentReasons);
  assert.ok(found.size > 50, `${found.size} found`);
  assert.deepEqual(without(found, documented), []);
});

test('every reason that names a device is in the guide for each device', () => {
  const problems = [...sources(['src/agent/node/devices']).values()].join('\n');
  const endings = [...problems.matchAll(/reason: `\$\{kind\}(\w+)`/g)].map(([, ending]) => ending);
  assert.ok(endings.length > 0);
  const reasons = endings.flatMap((ending) => ['Kvm', 'Tun', 'VhostNet', 'Mshv'].map((kind) => `${kind}${ending}`));
  assert.deepEqual(
    reasons.filter((reason) => !documented.has(reason)),
    [],
  );
});

test('every condition that the agent writes has a row in the guide', () => {
  const found = written(['src/agent'], agentConditions);
  assert.ok(found.size > 7, `${found.size} found`);
  assert.deepEqual(without(found, documentedConditions), []);
});

test('every reason that the standalone node writes has a row in the guide', () => {
  const found = written(controllerFolders, controllerReasons);
  assert.ok(found.size > 20, `${found.size} found`);
  assert.deepEqual(without(found, documented), []);
});

test('the guide explains no reason and no condition that nobody writes', () => {
  const all = [...sources(['src']).values()].join('\n');
  const isWritten = (word: string) => new RegExp(`['"]${word.replaceAll('.', '\\.')}['"]`).test(all);
  const ofDevice = /^(?:Kvm|Tun|VhostNet|Mshv)(?:PluginNotRegistered|PluginNotListened|DeviceMissing|DeviceUnknown)$/;
  const words = [...documented, ...documentedConditions].filter((word) => word !== '–' && !ofDevice.test(word));
  assert.deepEqual(
    words.filter((word) => !isWritten(word)),
    [],
  );
});
