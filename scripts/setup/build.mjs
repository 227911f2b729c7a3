// The programs in dist/ and the guest in .cache/, made again only when what they are made of has changed.
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { buildGuest, guestIsCurrent } from '../guest/build.mjs';
import { buildDebian, debianIsCurrent } from '../guest/debian/build.mjs';
import { buildInstaller, installerIsCurrent } from '../guest/installer/build.mjs';
import { ensurePackageLists } from './debian.mjs';
import { quote, root, runLogged, SetupError, say } from './report.mjs';

const stampFile = path.join(root, 'dist/.stamp');

/** Names, sizes and times of all inputs. */
function sources() {
  const files = readdirSync(path.join(root, 'src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name));
  return [
    ...files,
    path.join(root, 'package-lock.json'),
    path.join(root, 'scripts/build.mjs'),
    path.join(root, 'scripts/bundle.mjs'),
  ]
    .sort()
    .map((file) => {
      const { size, mtimeMs } = statSync(file);
      return `${path.relative(root, file)} ${size} ${mtimeMs}`;
    })
    .join('\n');
}

function isBuilt(stamp) {
  try {
    return readFileSync(stampFile, 'utf8') === stamp;
  } catch {
    return false;
  }
}

export async function ensureBuild() {
  const stamp = sources();
  if (isBuilt(stamp)) return;
  say('building the programs (dist/bin)');
  const { code, tail } = await runLogged(process.execPath, ['scripts/build.mjs']);
  if (code !== 0) throw new SetupError(`the build failed:\n${quote(tail, 30)}`);
  writeFileSync(stampFile, stamp);
}

export async function ensureGuest() {
  if (guestIsCurrent()) return;
  await ensurePackageLists('linux-image-cloud-amd64');
  say('building the demo guest (.cache/guest)');
  try {
    buildGuest(say);
  } catch (error) {
    throw new SetupError(`the demo guest could not be built: ${error.message}`);
  }
}

/** The medium of the test that installs from one. */
export async function ensureInstaller() {
  if (installerIsCurrent()) return;
  await ensurePackageLists('systemd-boot-efi');
  say('building an installation medium (.cache/installer)');
  try {
    buildInstaller(say);
  } catch (error) {
    throw new SetupError(`the installation medium could not be built: ${error.message}`);
  }
}

/** Some minutes where the CPU is slow, once. */
export async function ensureDebian() {
  if (debianIsCurrent()) return;
  await ensurePackageLists('linux-image-cloud-amd64');
  say('building a Debian with cloud-init and guest agent (.cache/debian)');
  try {
    buildDebian(say);
  } catch (error) {
    throw new SetupError(`the Debian guest could not be built: ${error.message}`);
  }
}
