import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { CodedError, errorMessage } from '../base/index.ts';

/** The built page: `index.html`, and the files below `/assets/` whose names carry a hash of their content. */
export interface PageFiles {
  readonly html: Buffer;
  readonly assetsDir: string;
  /** File name → media type. What is not in here is not served, whatever the path looks like. */
  readonly assets: ReadonlyMap<string, string>;
}

const mediaTypes: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Throws WebError PAGE_MISSING. */
export async function readPageFiles(dir: string): Promise<PageFiles> {
  const assetsDir = path.join(dir, 'assets');
  try {
    const names = await readdir(assetsDir);
    const typed = names.flatMap((name): [string, string][] => {
      const type = mediaTypes[path.extname(name)];
      return type === undefined ? [] : [[name, type]];
    });
    return { html: await readFile(path.join(dir, 'index.html')), assetsDir, assets: new Map(typed) };
  } catch (cause) {
    const message = `the web page is not in ${dir} (${errorMessage(cause)}): run "npm run build"`;
    throw new WebError('PAGE_MISSING', message, { cause });
  }
}

/** The page cannot be served; the message says what to do. */
class WebError extends CodedError<'PAGE_MISSING'> {}
