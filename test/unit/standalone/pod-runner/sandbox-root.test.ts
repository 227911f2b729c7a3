import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { SandboxMount } from '../../../../src/standalone/index.ts';
import { fstabField, mountRounds, rootLines } from '../../../../src/standalone/pod-runner/sandbox-root.ts';

const mount = (target: string, type: SandboxMount['type'] = 'directory'): SandboxMount => {
  return { source: `/of${target}`, target, readOnly: false, type };
};

describe('fields of a table of mounts', () => {
  /** As mount reads them (getmntent(3)). */
  const read = (field: string) =>
    Buffer.from(
      field.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8))),
      'latin1',
    ).toString('utf8');

  test('are read as the path that they were made of, and are one word of plain letters', () => {
    const characters = fc.constantFrom(...'ab/. \t\n\\\\"\'#,=%$04', 'ü', '🐧');
    fc.assert(
      fc.property(fc.array(characters), (parts) => {
        const file = `/${parts.join('')}`;
        assert.match(fstabField(file), /^[\w/.~+:@\\-]+$/);
        assert.equal(read(fstabField(file)), file);
      }),
    );
  });

  test('have no end of a string in them', () => {
    assert.throws(() => fstabField('/run/a\0b'), { code: 'POD_INVALID' });
  });
});

describe('rounds of mounts', () => {
  const roundsOf = (mounts: readonly SandboxMount[]) =>
    mountRounds(mounts, ['/run']).map((round) => round.map(({ target }) => target));

  test('one does for directories, wherever, and for files where nothing is mounted', () => {
    const mounts = [mount('/srv/package.json', 'file'), mount('/run/a'), mount('/run/a/b')];
    assert.deepEqual(roundsOf(mounts), [['/srv/package.json', '/run/a', '/run/a/b']]);
  });

  test('a file below a mount comes after it, and all files there together', () => {
    const files = ['/run/x/1', '/run/x/2'].map((target) => mount(target, 'file'));
    assert.deepEqual(roundsOf([mount('/run/x'), ...files, mount('/run/y')]), [
      ['/run/x'],
      ['/run/x/1', '/run/x/2', '/run/y'],
    ]);
  });

  test('a name that begins alike is another directory', () => {
    assert.deepEqual(roundsOf([mount('/runs/file', 'file')]), [['/runs/file']]);
  });
});

test('however many volumes a pod has, one program mounts them, and no line of the script is made of their names', () => {
  const lines = (mounts: readonly SandboxMount[]) =>
    rootLines({ mounts, kvm: 'fails' }, [])
      .split('\n')
      .filter((line) => !/^(\[ -e '|printf '%s\\n' ')/.test(line));
  const many = Array.from({ length: 30 }, (_, index) => mount(`/run/volume-${index}`));
  assert.deepEqual(lines(many), lines(many.slice(0, 1)));
});
