import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSecureContext, DEFAULT_CIPHERS } from 'node:tls';
import { defaultTlsSettings, readTlsSettings } from '../../../src/tls/index.ts';

const versions: readonly (readonly [unknown, string])[] = [
  ['VersionTLS10', 'TLSv1'],
  ['VersionTLS11', 'TLSv1.1'],
  ['VersionTLS12', 'TLSv1.2'],
  ['VersionTLS13', 'TLSv1.3'],
  ['', 'TLSv1.2'],
  ['VersionTLS14', 'TLSv1.2'],
  ['versiontls13', 'TLSv1.2'],
  [13, 'TLSv1.2'],
  [null, 'TLSv1.2'],
  [['VersionTLS13'], 'TLSv1.2'],
];

for (const [minTLSVersion, expected] of versions) {
  test(`the oldest version for ${JSON.stringify(minTLSVersion)} is ${expected}`, () => {
    assert.equal(readTlsSettings({ minTLSVersion }).minVersion, expected);
  });
}

test('without a configuration, and with one of a wrong type, the defaults count: TLS 1.2 and the library’s suites', () => {
  assert.deepEqual(defaultTlsSettings, { minVersion: 'TLSv1.2', ciphers: DEFAULT_CIPHERS });
  for (const absurd of [undefined, null, 'VersionTLS13', 7, [], true, {}]) {
    assert.deepEqual(readTlsSettings(absurd), defaultTlsSettings);
  }
});

test('suites are given to OpenSSL by its names, in the order of the list and once each', () => {
  const ciphers = [
    'TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256',
    'TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256',
    'TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256',
    'TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305',
  ];
  const expected = 'ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305';
  assert.equal(readTlsSettings({ ciphers }).ciphers, expected);
});

test('unknown suites, those that OpenSSL was built without, its own syntax and other types are passed over', () => {
  const suite = 'TLS_RSA_WITH_AES_128_CBC_SHA';
  const others = [
    'TLS_NO_SUCH',
    'ALL',
    '!aNULL',
    'aNULL:eNULL',
    '@SECLEVEL=0',
    'TLS_RSA_WITH_RC4_128_SHA',
    7,
    null,
    {},
  ];
  assert.equal(readTlsSettings({ ciphers: [...others, suite] }).ciphers, 'AES128-SHA');
  for (const ciphers of [others, [], 'TLS_RSA_WITH_AES_128_CBC_SHA', { 0: suite }, null]) {
    assert.deepEqual(readTlsSettings({ ciphers }), defaultTlsSettings);
  }
});

test('with suites of TLS 1.3 alone there is nothing left for TLS 1.2', () => {
  assert.equal(readTlsSettings({ ciphers: ['TLS_AES_128_GCM_SHA256'] }).minVersion, 'TLSv1.3');
  const both = readTlsSettings({ ciphers: ['TLS_AES_128_GCM_SHA256', 'TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256'] });
  assert.deepEqual(both, { minVersion: 'TLSv1.2', ciphers: 'ECDHE-RSA-AES128-GCM-SHA256' });
});

test('OpenSSL takes whatever comes out', () => {
  for (const [minTLSVersion] of versions) {
    for (const ciphers of [[], ['TLS_RSA_WITH_3DES_EDE_CBC_SHA'], ['TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA'], ['x']]) {
      createSecureContext({ ...readTlsSettings({ minTLSVersion, ciphers }) });
    }
  }
});
