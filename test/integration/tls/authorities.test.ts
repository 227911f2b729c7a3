import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { silentLogger } from '../../../src/base/index.ts';
import { FollowedAuthorities, readAuthorities, SettableValue, TlsInputError } from '../../../src/tls/index.ts';
import { TestAuthority } from '../../fixtures/certificates.ts';

suite('a bundle of authorities', () => {
  let one: TestAuthority;
  let two: TestAuthority;
  before(async () => {
    [one, two] = await Promise.all([TestAuthority.make(), TestAuthority.make('another')]);
  });
  after(() => Promise.all([one.remove(), two.remove()]));

  test('may have words, other line ends and other PEM blocks in it, and one certificate twice', () => {
    const [a, b] = [one.pair.cert, two.pair.cert];
    const text = `# since spring\n${a}\r\n${b.replaceAll('\n', '\r\n')}subject=x\n${one.pair.key}${a}`;
    const { certificates, pems } = readAuthorities(text);
    assert.deepEqual(
      certificates.map(({ subject }) => subject),
      ['CN=kubevirt.io', 'CN=another'],
    );
    assert.equal(pems.length, 2);
  });

  test('is all or nothing: no certificate, a torn one, a damaged one, and too large a text are refused in words', () => {
    const cert = one.pair.cert;
    const refused: readonly (readonly [string, RegExp])[] = [
      ['', /no certificate/],
      ['words', /no certificate/],
      [one.pair.key, /no certificate/],
      [`${cert}${two.pair.cert.slice(0, -30)}`, /has no end/],
      [`${two.pair.cert.slice(0, 200)}${cert}`, /cannot be read|has no end/],
      [`${cert}${two.pair.cert.split('\n').toSpliced(2, 1).join('\n')}`, /certificate 2 of the bundle cannot be read/],
      [cert.repeat(2_500), /has \d+ bytes/],
    ];
    for (const [text, words] of refused) {
      assert.throws(
        () => readAuthorities(text),
        (error) => error instanceof TlsInputError && words.test(error.message),
        text.slice(0, 40),
      );
    }
  });

  test('is told only when it differs, in whatever order', () => {
    const text = new SettableValue<string>();
    const followed = new FollowedAuthorities(text, { log: silentLogger });
    const count = () => followed.current?.pems.length;
    let changes = 0;
    followed.onChange(() => changes++);
    assert.equal(count(), undefined);
    text.set('garbage');
    assert.equal(count(), undefined);
    text.set(`${one.pair.cert}${two.pair.cert}`);
    text.set(`${two.pair.cert}\n${one.pair.cert}`);
    assert.equal(changes, 1);
    text.set('garbage');
    assert.equal(count(), 2);
    text.set(one.pair.cert);
    assert.deepEqual([changes, count()], [2, 1]);
    followed.stop();
    text.set(two.pair.cert);
    assert.equal(changes, 2);
  });
});
