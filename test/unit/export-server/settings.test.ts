import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { byteRangeOf } from '../../../src/export-server/byte-range.ts';
import { readExportSettings } from '../../../src/export-server/index.ts';

const needed = { CERT_FILE: '/cert/tls.crt', KEY_FILE: '/cert/tls.key', TOKEN_FILE: '/token/token' };
const codeOf = { name: 'ExportSettingsError', code: 'BAD_SETTING' };

describe('the environment of an exporter pod', () => {
  test('what upstream’s controller gives its server is understood', () => {
    const settings = readExportSettings({
      ...needed,
      POD_NAME: 'virt-export-x',
      DEADLINE: '2026-01-31T12:00:00Z',
      TLS_MIN_VERSION: '772',
      EXPORT_VM_DEF_URI: '/manifests/all',
      EXPORT_SECRET_DEF_URI: '/manifests/secret',
      VOLUME1_EXPORT_PATH: '/export-volumes/files',
      VOLUME1_EXPORT_ARCHIVE_URI: '/volumes/files/disk.tar.gz',
      VOLUME1_EXPORT_DIR_URI: '/volumes/files/dir',
      VOLUME0_EXPORT_PATH: '/dev/export-volumes/root',
      VOLUME0_EXPORT_RAW_URI: '/volumes/root/disk.img',
      VOLUME0_EXPORT_RAW_GZIP_URI: '/volumes/root/disk.img.gz',
    });
    const { tls, ...others } = settings;
    assert.equal(tls.minVersion, 'TLSv1.3');
    assert.deepEqual(others, {
      listen: { host: '0.0.0.0', port: 8443 },
      keyPair: { certFile: '/cert/tls.crt', keyFile: '/cert/tls.key' },
      tokenFile: '/token/token',
      deadline: new Date('2026-01-31T12:00:00Z'),
      vmUri: '/manifests/all',
      secretUri: '/manifests/secret',
      volumes: [
        {
          path: '/dev/export-volumes/root',
          rawUri: '/volumes/root/disk.img',
          gzipUri: '/volumes/root/disk.img.gz',
        },
        { path: '/export-volumes/files', dirUri: '/volumes/files/dir/', archiveUri: '/volumes/files/disk.tar.gz' },
      ],
      manifestDir: '/manifest_data',
    });
  });

  test('suites are known by their numbers', () => {
    const { tls } = readExportSettings({ ...needed, TLS_MIN_VERSION: '771', TLS_CIPHER_SUITES: '[49195,49199]' });
    assert.equal(tls.ciphers, 'ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256');
    assert.equal(readExportSettings({ ...needed, TLS_CIPHER_SUITES: 'nonsense' }).tls.minVersion, 'TLSv1.2');
  });

  test('what cannot be used, and what is not served, is refused', () => {
    const wrong: readonly Readonly<Record<string, string>>[] = [
      { CERT_FILE: '' },
      { TOKEN_FILE: '' },
      { LISTEN_ADDR: 'nonsense' },
      { LISTEN_ADDR: ':99999' },
      { DEADLINE: 'tomorrow' },
      { DEADLINE: '12' },
      { EXPORT_OCI_URI: '/export.oci.tar' },
      { BACKUP0_BACKUP_PATH: '/x' },
      { VOLUME0_EXPORT_PATH: 'relative' },
      { VOLUME0_EXPORT_PATH: '/x', VOLUME0_EXPORT_RAW_URI: 'volumes/x' },
    ];
    for (const each of wrong) assert.throws(() => readExportSettings({ ...needed, ...each }), codeOf);
  });
});

describe('byte ranges', () => {
  const part = (first: number, last: number) => ({ kind: 'part', first, last });
  const rows: readonly (readonly [header: string | undefined, size: number, range: object])[] = [
    [undefined, 10, { kind: 'whole' }],
    ['bytes=0-3', 10, part(0, 3)],
    ['bytes=4-', 10, part(4, 9)],
    ['bytes=-3', 10, part(7, 9)],
    ['bytes=-30', 10, part(0, 9)],
    ['bytes=5-99', 10, part(5, 9)],
    ['bytes=10-', 10, { kind: 'none' }],
    ['bytes=-0', 10, { kind: 'none' }],
    ['bytes=0-', 0, { kind: 'none' }],
    ['bytes=5-3', 10, { kind: 'whole' }],
    ['bytes=0-1,4-5', 10, { kind: 'whole' }],
    ['bytes=-', 10, { kind: 'whole' }],
    ['lines=0-1', 10, { kind: 'whole' }],
    ['bytes=99999999999999999999-', 10, { kind: 'whole' }],
  ];
  for (const [header, size, range] of rows)
    test(`${header} of ${size} bytes`, () => assert.deepEqual(byteRangeOf(header, size), range));
});
