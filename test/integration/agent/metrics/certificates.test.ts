import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { parseAgentOptions } from '../../../../src/agent/index.ts';
import { CertificateExpiry, endsOf } from '../../../../src/agent/serve/metrics/certificates.ts';
import { pairsInUse } from '../../../../src/agent/serve/metrics/metrics-parts.ts';
import {
  type Authorities,
  type PemPair,
  readAuthorities,
  readKeyPair,
  SettableValue,
} from '../../../../src/tls/index.ts';
import { TestAuthority } from '../../../fixtures/certificates.ts';
import { eventually } from '../../../fixtures/eventually.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';

let authority: TestAuthority;
let one: PemPair;
let other: PemPair;
let expired: PemPair;
let clock: FakeClock;
let expiry: CertificateExpiry;

const fileOf = (pair: string, kind: 'crt' | 'key') => path.join(authority.dir, `${pair}.${kind}`);
const pathsOf = (pair: string) => ({ certFile: fileOf(pair, 'crt'), keyFile: fileOf(pair, 'key') });
const put = (pair: string, { cert, key }: Partial<PemPair>) => {
  for (const kind of ['crt', 'key'] as const) rmSync(fileOf(pair, kind), { force: true });
  if (cert !== undefined) writeFileSync(fileOf(pair, 'crt'), cert);
  if (key !== undefined) writeFileSync(fileOf(pair, 'key'), key);
};
const look = async () => {
  await expiry.refresh();
  const { expiries, problems } = expiry.current;
  return {
    expiries: expiries.map(({ pair }) => pair),
    problems: problems.map(({ pair, why }) => `${pair} ${why}`),
  };
};
const endOf = (cert: string) => readKeyPair(cert, one.key).expiresAt;

before(async () => {
  authority = await TestAuthority.make();
  one = await authority.issue();
  other = await authority.issue();
  expired = await authority.issue({ days: -1 });
});
beforeEach(() => {
  for (const pair of ['server', 'client']) put(pair, {});
  clock = new FakeClock();
  const pairs = { server: () => pathsOf('server'), client: () => pathsOf('client') };
  expiry = new CertificateExpiry({ pairs }, { clock });
});
after(() => authority?.remove());

test('the end of each pair that is there is told, also when it has come, and one that is not there is no fault', async () => {
  assert.deepEqual(await look(), { expiries: [], problems: [] });
  put('client', one);
  assert.deepEqual(await look(), { expiries: ['client'], problems: [] });
  assert.deepEqual(expiry.current.expiries[0]?.expiresAt, endOf(one.cert));
  put('server', expired);
  assert.deepEqual(await look(), { expiries: ['server', 'client'], problems: [] });
  assert.ok((expiry.current.expiries[0]?.expiresAt.getTime() ?? 0) < Date.now());
});

test('a pair whose halves belong to different ones is told, with the end of its certificate', async () => {
  put('client', { cert: one.cert, key: other.key });
  assert.deepEqual(await look(), { expiries: ['client'], problems: ['client KeyMismatch'] });
});

test('a torn, absurd or half pair is told by what is wrong with it', async () => {
  const cases: readonly (readonly [Partial<PemPair>, string, boolean])[] = [
    [{ cert: one.cert.slice(0, 300), key: one.key }, 'BadCertificate', false],
    [{ cert: '', key: one.key }, 'BadCertificate', false],
    [{ cert: one.key, key: one.cert }, 'BadCertificate', false],
    [{ cert: one.cert, key: one.key.slice(0, 60) }, 'BadKey', true],
    [{ cert: one.cert, key: '' }, 'BadKey', true],
    [{ cert: one.cert }, 'KeyMissing', true],
    [{ key: one.key }, 'CertificateMissing', false],
    [{ cert: 'x'.repeat(2 * 1024 * 1024), key: one.key }, 'Unreadable', false],
  ];
  for (const [pair, reason, hasEnd] of cases) {
    put('client', pair);
    assert.deepEqual(await look(), { expiries: hasEnd ? ['client'] : [], problems: [`client ${reason}`] }, reason);
  }
});

test('a named pipe in the place of a certificate holds nothing up', async () => {
  put('client', { key: one.key });
  execFileSync('mkfifo', [fileOf('client', 'crt')]);
  put('server', one);
  assert.deepEqual(await look(), { expiries: ['server'], problems: ['client Unreadable'] });
});

test('who asks gets what was read last; the files are read again after a minute, and soon while one is wrong', async () => {
  put('client', { cert: one.cert, key: other.key });
  await look();
  put('client', one);
  assert.equal(expiry.current.problems.length, 1);
  clock.advance(5_000);
  await eventually(() => assert.equal(expiry.current.problems.length, 0));
  put('client', {});
  clock.advance(30_000);
  assert.equal(expiry.current.expiries.length, 1);
  clock.advance(30_000);
  await eventually(() => assert.equal(expiry.current.expiries.length, 0));
});

test('of the servers the pair in use counts, not the one on disk; of a bundle the authority that lasts longest', async () => {
  const keyPair = new SettableValue<ReturnType<typeof readKeyPair>>();
  const authorities = new SettableValue<Authorities>();
  const onDisk = [{ pair: 'server', expiresAt: new Date(0) }];
  assert.deepEqual(endsOf({ keyPair, authorities }, onDisk), onDisk);
  const inUse = readKeyPair(one.cert, one.key);
  keyPair.set(inUse);
  // The day is shorter than the two of the authority.
  authorities.set(readAuthorities(`${expired.cert}${authority.pair.cert}${one.cert}`));
  const ca = new Date(readAuthorities(authority.pair.cert).certificates[0]?.validTo ?? '');
  assert.deepEqual(endsOf({ keyPair, authorities }, onDisk), [
    { pair: 'server', expiresAt: inUse.expiresAt },
    { pair: 'ca', expiresAt: ca },
  ]);
});

test('of migrations the pair counts that they show: another where there is none of their own, none without migrations', async () => {
  const flags = (['tls', 'migration-client', 'client'] as const).flatMap((name) => [
    ...[`--${name}-cert-file`, fileOf(name, 'crt')],
    ...[`--${name}-key-file`, fileOf(name, 'key')],
  ]);
  const look = async (...more: readonly string[]) => {
    const options = parseAgentOptions([...flags, ...more, '--pod-ip-address=10.0.0.1'], { hostName: 'node1' });
    assert.ok(options);
    const found = new CertificateExpiry({ pairs: pairsInUse(options) }, { clock });
    await found.refresh();
    const { expiries, problems } = found.current;
    return [...expiries, ...problems];
  };
  put('client', one);
  const end = ({ cert, key }: PemPair) => [{ pair: 'migration-client', expiresAt: readKeyPair(cert, key).expiresAt }];
  assert.deepEqual(await look(), end(one));
  put('migration-client', expired);
  assert.deepEqual(await look(), end(expired));
  put('migration-client', { cert: expired.cert, key: one.key });
  assert.deepEqual((await look()).slice(1), [{ pair: 'migration-client', why: 'KeyMismatch' }]);
  assert.deepEqual(await look('--live-migration=false'), []);
  put('migration-client', {});
});
