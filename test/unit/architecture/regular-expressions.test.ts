import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { ExpressionJudge, findExpressions } from '../../fixtures/regular-expressions.ts';

// In this process: the tool's other back ends are programs of one platform.
process.env.RECHECK_SYNC_BACKEND = 'pure';

/** `<file> <expression>` → why it may stay although its time grows faster than the text, or is not known. */
const exceptions: Readonly<Record<string, string>> = {
  "src/serving/process-metrics.ts new RegExp(`^${name}\\\\s+(\\\\d+)`, 'm')":
    'reads /proc/self/limits, which the kernel writes; the names are two constants',
  'src/agent/vmi/status/guest-agent-conditions.ts new RegExp(pattern)':
    "the cluster administrator's pattern, on 64 characters of the guest",
  'src/controller/pod/pod-metadata.ts /-+$/': 'the name is cut to 63 characters before',
  'src/kube/credentials.ts /\\/+$/': 'the URL of the API server is of the configuration of the program itself',
};

const listFile = 'test/unit/architecture/linear-expressions.json';

function wrongOnes(judge: ExpressionJudge, file: string, source: string): [string, string][] {
  return findExpressions(file, source)
    .map(({ text, pattern, flags }): [string, string] => [
      `${file} ${text}`,
      pattern === undefined ? 'put together while the program runs' : judge.judge(pattern, flags),
    ])
    .filter(([, verdict]) => verdict !== 'linear');
}

describe('every regular expression takes time in proportion to the text', () => {
  const judge = new ExpressionJudge(listFile);
  const wrong = readdirSync('src', { recursive: true })
    .map((file) => path.join('src', String(file)))
    .filter((file) => /\.tsx?$/.test(file))
    .flatMap((file) => wrongOnes(judge, file, readFileSync(file, 'utf8')));

  test('of all that is in src', () => {
    const news = wrong.filter(([place]) => !Object.hasOwn(exceptions, place));
    assert.deepEqual(news, [], 'rewrite it, bound the text before, or name it in the exceptions with the reason');
  });

  test('the list of those decided before is complete, so that this takes no time', () => {
    const command = 'EXPRESSIONS=write node scripts/test.mjs unit test/unit/architecture/regular-expressions.test.ts';
    if (process.env.EXPRESSIONS === 'write') judge.write();
    assert.ok(process.env.EXPRESSIONS === 'write' || judge.isListed, `write it: ${command}`);
  });

  test('no exception outlives its expression', () => {
    const places = new Set(wrong.map(([place]) => place));
    assert.deepEqual(
      Object.keys(exceptions).filter((place) => !places.has(place)),
      [],
    );
  });

  const slow: [string, string][] = [
    ['a number that can be read in two ways', 'export const number = /^(\\d+\\.?\\d*)$/;'],
    ['what may begin anywhere', 'text.replace(/ +$/, "")'],
    ['a repetition of repetitions', 'if (/^(a+)+$/.test(text)) throw 1;'],
    ['one that is put together', `const part = "(?:a+)+"; new RegExp(\`^\${part}$\`);`],
    ['a text that is matched', 'text.match("^(a+)+$")'],
    ['one that is not known before', 'const of = (name) => RegExp(name + "+");'],
  ];
  for (const [what, source] of slow) {
    test(`${what} is found`, () => assert.equal(wrongOnes(new ExpressionJudge(listFile), 'x.ts', source).length, 1));
  }

  test('a comment, a division and a text are none', () => {
    assert.deepEqual(findExpressions('x.ts', 'const a = 4 / 2 / 1; // /(a+)+$/\nconst b = "/(a+)+$/";'), []);
  });
});
