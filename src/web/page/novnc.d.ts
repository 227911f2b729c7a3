/** The package's types are those of an older layout of its files. */
declare module '@novnc/novnc' {
  export { default } from '@novnc/novnc/lib/rfb';
}
