import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseFieldSelector, parseLabelSelector } from '../../../src/apiserver/objects/selectors.ts';

type Labels = Record<string, string>;

describe('label selectors', () => {
  const table: [string, Labels | undefined, boolean][] = [
    ['', undefined, true],
    ['a', { a: '' }, true],
    ['a', undefined, false],
    ['!a', undefined, true],
    ['!a', { a: 'x' }, false],
    ['a=x', { a: 'x' }, true],
    ['a = x', { a: 'x' }, true],
    ['a==x,b!=y', { a: 'x' }, true],
    ['a=', { a: '' }, true],
    ['a!=x', {}, true],
    ['a in (x, y),b', { a: 'y', b: '' }, true],
    ['a in (x,y)', { a: 'z' }, false],
    ['a notin (x)', {}, true],
    ['n>3', { n: '10' }, true],
    ['n<3', { n: '10' }, false],
    ['n>3', { n: 'many' }, false],
    ['kubevirt.io/nodeName=one', { 'kubevirt.io/nodeName': 'one' }, true],
    ['constructor', {}, false],
    ['!toString', {}, true],
  ];
  for (const [selector, labels, expected] of table) {
    test(`"${selector}" on ${JSON.stringify(labels)} is ${expected}`, () => {
      assert.equal(parseLabelSelector(selector)(labels), expected);
    });
  }

  for (const selector of [
    'a in',
    'a in x',
    'a in (x',
    'a)',
    'a=b=c',
    'a=b c',
    '/a',
    'a>x',
    ',',
    'a,,b',
    '((a))',
    'ä=1',
  ]) {
    test(`"${selector}" is refused`, () => {
      assert.throws(() => parseLabelSelector(selector), { code: 'BAD_REQUEST' });
    });
  }
});

describe('field selectors', () => {
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'p', namespace: 'n' },
    spec: { nodeName: 'one' },
    status: {},
  };
  const fields = ['spec.nodeName', 'status.phase', 'spec.hostNetwork'];
  const table: [string, boolean][] = [
    ['', true],
    ['metadata.name=p,metadata.namespace=n', true],
    ['metadata.name==q', false],
    ['spec.nodeName!=two', true],
    ['status.phase=', true],
    ['status.phase!=Running', true],
    ['spec.hostNetwork=false', true],
  ];
  for (const [selector, expected] of table) {
    test(`"${selector}" is ${expected}`, () => {
      assert.equal(parseFieldSelector(selector, fields)(pod), expected);
    });
  }

  test('a field that is not listed is refused, and the message lists those that are', () => {
    assert.throws(() => parseFieldSelector('spec.x=1', fields), /spec\.x.*spec\.nodeName/);
  });

  test('what has no operator is refused', () => {
    assert.throws(() => parseFieldSelector('metadata.name', fields), { code: 'BAD_REQUEST' });
  });
});
