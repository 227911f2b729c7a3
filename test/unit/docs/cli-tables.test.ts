import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { outputFormats } from '../../../src/standalone/cli/answer-format.ts';
import { exitCodes, parseCommand } from '../../../src/standalone/index.ts';

const page = readFileSync('docs/operators-guide/cli.md', 'utf8');
const firstCells = [...page.matchAll(/^\| ([^|]+) \|/gm)].map(([, cell = '']) => cell.trim());

test('each command has a row in the guide, and each row is a command', () => {
  const parsed = parseCommand(['--get-yargs-completions', 'virt-node', '']);
  const offered = parsed.command === 'complete' ? parsed.words.filter((word) => /^[a-z]/.test(word)) : [];
  assert.ok(offered.length > 15, offered.join());
  const table = page.slice(page.indexOf('| Command | Does |'), page.indexOf('## Exit codes'));
  const rows = [...table.matchAll(/^\| ([^|]+) \|/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`([\w-]+)`/g)].map(([, name = '']) => name),
  );
  assert.deepEqual(
    offered.filter((name) => !rows.includes(name)),
    [],
  );
  // Of what is no command there is no help.
  for (const name of rows) assert.equal(parseCommand(['help', name]).command, 'print', name);
});

test('each exit code has a row in the guide', () => {
  const codes = firstCells.filter((cell) => /^\d+$/.test(cell)).map(Number);
  assert.deepEqual(codes, [...Object.values(exitCodes), 130]);
});

test('the forms of list are those of the guide', () => {
  const row = page.split('\n').find((line) => line.startsWith('| `list`, `users` |')) ?? '';
  assert.deepEqual([...row.matchAll(/`(\w+)`/g)].map(([, name]) => name).slice(2), [...outputFormats]);
});
