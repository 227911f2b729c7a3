import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TlsConfig } from '../../../src/serving/tls-config.ts';
import { FakeSettings } from '../../fixtures/agent/fake-settings.ts';

const configOf = (settings: FakeSettings) =>
  new TlsConfig((use) => settings.select(({ node }) => node.tlsConfiguration, use));

const strict = { minTLSVersion: 'VersionTLS13' };

test('there are no settings before the objects were asked for: defaults could be weaker', () => {
  const config = configOf(new FakeSettings());
  const oldest = () => config.current?.minVersion;
  assert.equal(oldest(), undefined);
  config.begin();
  assert.equal(oldest(), 'TLSv1.2');
});

test('settings follow the configuration in use, and tell of differences only', () => {
  const settings = new FakeSettings();
  const config = configOf(settings);
  const seen: (string | undefined)[] = [];
  config.onChange(() => seen.push(config.current?.minVersion));
  config.begin();
  settings.setNode({ tlsConfiguration: strict });
  settings.setNode({ tlsConfiguration: { ...strict, ciphers: ['NONE'] } });
  settings.setNode({ tlsConfiguration: undefined });
  assert.deepEqual(seen, ['TLSv1.2', 'TLSv1.3', 'TLSv1.2']);
  config.stop();
  assert.equal(settings.listeners, 0);
});

test('a configuration with absurd parts counts as one without them', () => {
  const settings = new FakeSettings();
  const config = configOf(settings);
  config.begin();
  for (const tlsConfiguration of [7, null, [], 'x', ['VersionTLS13'], { minTLSVersion: {} }]) {
    settings.setNode({ tlsConfiguration });
    assert.equal(config.current?.minVersion, 'TLSv1.2', JSON.stringify(tlsConfiguration));
  }
});
