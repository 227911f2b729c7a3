import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RestError } from '../../../../../src/agent/serve/rest/errors.ts';
import { parseGoBool, streamWish } from '../../../../../src/agent/serve/rest/streams.ts';
import type { StreamKind } from '../../../../../src/console/index.ts';

const wish = (kind: StreamKind, query: string) => streamWish(kind, new URLSearchParams(query));

test('without a query a newcomer takes over, as upstream’s do', () => {
  for (const kind of ['console', 'vnc', 'usbredir'] as const) assert.deepEqual(wish(kind, ''), { access: 'take' });
});

test('preserveSession is a Go bool of vnc; what cannot be read counts as false', () => {
  for (const text of ['1', 't', 'T', 'true', 'TRUE', 'True']) {
    assert.equal(wish('vnc', `preserveSession=${text}`).access, 'take-if-free', text);
  }
  for (const text of ['0', 'f', 'False', '', 'yes', 'tRUE', '2']) {
    assert.equal(wish('vnc', `preserveSession=${text}`).access, 'take', text);
  }
  assert.equal(wish('console', 'preserveSession=true').access, 'take');
});

test('access goes before preserveSession', () => {
  assert.equal(wish('vnc', 'preserveSession=true&access=view').access, 'view');
  assert.equal(wish('vnc', 'access=take&preserveSession=true').access, 'take');
  assert.equal(wish('console', 'access=take-if-free').access, 'take-if-free');
});

test('a console is resumed by line and offset', () => {
  const { resume } = wish('console', 'access=take&line=l-1&from=123');
  assert.deepEqual(resume, { line: 'l-1', from: 123 });
});

test('unknown values are refused, unknown parameters are not', () => {
  const refused: [kind: StreamKind, query: string][] = [
    ['console', 'access=steal'],
    ['console', 'access='],
    ['usbredir', 'access=view'],
    ['console', 'from=1'],
    ['console', 'line=l1'],
    ['console', 'line=l1&from=-1'],
    ['console', 'line=l1&from=1e3'],
    ['console', 'line=l1&from=9999999999999999'],
    ['console', 'line=..%2f&from=1'],
    ['vnc', 'line=l1&from=1'],
  ];
  for (const [kind, query] of refused) {
    assert.throws(
      () => wish(kind, query),
      (error: unknown) => error instanceof RestError && error.httpStatus === 400,
      query,
    );
  }
  assert.deepEqual(wish('console', 'color=blue'), { access: 'take' });
});

test('only Go’s words are bools', () => {
  assert.deepEqual(['true', 'F', 'tRue', ' true', ''].map(parseGoBool), [true, false, undefined, undefined, undefined]);
});
