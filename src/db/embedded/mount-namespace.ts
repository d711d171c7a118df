import { spawnSync } from 'node:child_process'
import { chownSync, existsSync, lstatSync, mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { isDiskFull } from './full-disk.ts'

export interface Identity {
  readonly uid: number
  readonly gid: number
}

/**
 * The server's user, which needs no name. Neither Debian (policy 9.2.2) nor systemd (UIDS-GIDS) assigns this number.
 */
export const SERVER_USER: Identity = { uid: 65_525, gid: 65_525 }

const SYSTEM = ['/bin', '/lib', '/lib32', '/lib64', '/usr/bin', '/usr/lib', '/usr/lib32', '/usr/lib64', '/usr/share/zoneinfo']
const DEVICES = ['/dev/null', '/dev/zero', '/dev/random', '/dev/urandom']

// Creates a root file system in a new mount namespace and runs a command there without privileges. It starts few
// processes, because each takes milliseconds.
const SET_UP = `
set -e
# The folder of chroot and mount, which the PATH of a service may lack.
PATH="$PATH:/usr/sbin:/sbin"
root=$1 uid=$2 gid=$3 programs=$4 folder=$5 links=$6 directories=$7 mounts=$8
shift 8
umask 022
mount -t tmpfs -o mode=755,size=1m tmpfs "$root"
cd "$root"
mkdir -p etc dev/shm $directories "$root$programs" "$root$folder"
if [ -n "$links" ]; then cp -P $links "$root"; fi
for device in null zero random urandom; do : >"dev/$device"; done
printf '%s\\n' "storefront:x:$uid:$gid::/:/bin/sh" >etc/passwd
printf '%s\\n' "$mounts" >etc/fstab
mount -a -T etc/fstab
exec chroot . setpriv --reuid "$uid" --regid "$gid" --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all -- \\
  env LD_LIBRARY_PATH="$programs/lib" "$@"
`

/** `command` sees only the system's programs and `programs`, and can write only to `folder`. */
export function isolate(command: readonly string[], programs: string, folder: string, { uid, gid }: Identity): string[] {
  // The folder itself stays empty, because its mounts are visible only in the namespace.
  const root = join(dirname(folder), 'server-root')
  mkdirSync(root, { recursive: true, mode: 0o700 })
  const found = SYSTEM.filter((path) => existsSync(path))
  const links = found.filter((path) => dirname(path) === '/' && lstatSync(path).isSymbolicLink())
  const directories = found.filter((path) => !links.includes(path))
  // `X-mount.mkdir`: a folder below /dev/shm is hidden by the mount before it.
  const bound = [...directories, ...DEVICES, programs, folder].map(
    (path) => `${quote(path)} ${quote(root + path)} none bind,X-mount.mkdir 0 0`,
  )
  const mounts = [`tmpfs ${quote(`${root}/dev/shm`)} tmpfs mode=1777 0 0`, ...bound].join('\n')
  const settings = [
    root,
    String(uid),
    String(gid),
    programs,
    folder,
    links.join(' '),
    directories.map((path) => `.${path}`).join(' '),
    mounts,
  ]
  return ['unshare', '--mount', '--', 'sh', '-c', SET_UP, 'storefront-namespace', ...settings, ...command]
}

function quote(path: string): string {
  return path.replace(/[\s\\]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`)
}

export function canIsolate(programs: string, folder: string, user: Identity): boolean {
  const probe = `${folder}.probe`
  rmSync(probe, { recursive: true, force: true })
  mkdirSync(probe, { recursive: true, mode: 0o700 })
  try {
    chownSync(probe, user.uid, user.gid)
    const check = ['sh', '-c', 'cd "$1" && : >written && exec "$2" --version', 'probe', probe, join(programs, 'bin', 'postgres')]
    const [program = '', ...args] = isolate(check, programs, probe, user)
    return spawnSync(program, args, { stdio: 'ignore' }).status === 0
  } catch (error) {
    if (isDiskFull(error)) throw error
    // On some file systems not even root can change an owner.
    return false
  } finally {
    rmSync(probe, { recursive: true, force: true })
  }
}
