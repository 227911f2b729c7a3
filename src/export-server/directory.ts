import { openInRoot } from '../host/index.ts';
import { type Exchange, ExportError, type Handler } from './answer.ts';
import { asExportError, openBelow, requireGet, sendFile } from './disk.ts';

/** Names of one directory that are shown. */
const maxNames = 10_000;
const escapes: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&#34;',
  "'": '&#39;',
};

/** Files of a volume one by one, and its directories as lists of links, as Go's file server shows them. */
export function directoryHandler(root: string): Handler {
  return async (exchange) => {
    const { below } = exchange;
    try {
      if (below.includes('\0')) throw new ExportError('BAD_REQUEST', 'no name has a zero byte');
      const found = openInRoot(root, below);
      let names: string[] | undefined;
      try {
        const stats = found.stat();
        if (stats.isDirectory()) names = listed(found);
        else if (!stats.isFile()) throw new ExportError('NOT_FOUND', 'it is neither a directory nor a plain file');
      } finally {
        found.close();
      }
      if (names) return showDirectory(exchange, names);
      const file = await openBelow(root, below);
      try {
        await sendFile(exchange, file);
      } finally {
        await file.handle.close();
      }
    } catch (error) {
      throw asExportError(error, 'the file');
    }
  };
}

type Opened = ReturnType<typeof openInRoot>;

function listed(directory: Opened): string[] {
  const names = directory.someNames(maxNames + 1).sort();
  if (names.length > maxNames)
    throw new ExportError('UNAVAILABLE', `the directory has more than ${maxNames} entries: ask for the archive`);
  return names.map((name) => {
    const entry = directory.entry(name);
    const isDirectory = entry.stat().isDirectory();
    entry.close();
    return isDirectory ? `${name}/` : name;
  });
}

function showDirectory(exchange: Exchange, names: readonly string[]): void {
  requireGet(exchange);
  const { below, response } = exchange;
  if (below !== '' && !below.endsWith('/')) {
    const last = below.split('/').at(-1) ?? '';
    response.writeHead(301, { location: `${encodeURIComponent(last)}/` }).end();
    return;
  }
  const lines = names.map((name) => `<a href="${linkOf(name)}">${escaped(name)}</a>\n`);
  const body = Buffer.from(`<!doctype html>\n<pre>\n${lines.join('')}</pre>\n`);
  response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'content-length': body.length });
  response.end(body);
}

/** Never the name of a scheme: it begins with `./`. */
function linkOf(name: string): string {
  return escaped(`./${name.split('/').map(encodeURIComponent).join('/')}`);
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => escapes[character] ?? '');
}
