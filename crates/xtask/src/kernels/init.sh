#!/bin/busybox sh
# The first process of a guest: reaches the machine's root, runs a command there, and switches off.
/bin/busybox mkdir -p /proc /dev /root /sbin
/bin/busybox --install -s /bin
export PATH=/bin
. /settings
mount -t proc proc /proc
mount -t devtmpfs dev /dev
echo 4 >/proc/sys/kernel/printk
for module in /modules/*.ko; do insmod "$module"; done
options=trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144
mount -t 9p -o "$options" root /root || { echo 'the root cannot be mounted'; poweroff -f; }

# The kernel calls it for the modules that it lacks.
cat >/sbin/modprobe <<END
#!/bin/busybox sh
exec chroot /root /sbin/modprobe -d '$kernel' "\$@"
END
chmod 755 /sbin/modprobe

mount -t proc proc /root/proc
mount -t sysfs sysfs /root/sys
mount --move /dev /root/dev
# What runs in the background reads from it.
mknod /dev/null c 1 3
ln -s /proc/self/fd /root/dev/fd
ln -s fd/0 /root/dev/stdin
ln -s fd/1 /root/dev/stdout
ln -s fd/2 /root/dev/stderr
mkdir -p /root/dev/pts /root/dev/shm
mount -t devpts -o ptmxmode=666 devpts /root/dev/pts
mount -t tmpfs tmpfs /root/dev/shm
mount -t tmpfs tmpfs /root/run
for module in virtio_blk ext4 loop fuse virtiofs overlay btrfs xfs tun tls; do
  /sbin/modprobe "$module" || echo "no module $module"
done
# Unquoted: several words.
mount $scratch /root/mnt || { echo 'no place for files can be mounted'; poweroff -f; }
for place in tmp var/tmp "$target_tmp"; do
  mkdir -p -m 1777 "/root/mnt/$place"
  mount -o bind "/root/mnt/$place" "/root/$place"
done
ip link set lo up
hostname guest

cat >/root/mnt/run.sh <<END
cd '$dir' || exit 1
export PATH='$path' HOME=/mnt LANG=C.UTF-8 RUST_BACKTRACE=0
exec $command
END
# The firmware's escape sequences stand at the beginning of the line.
printf '\nBEGIN %s\n' "$(uname -r)"
chroot /root /bin/sh /mnt/run.sh 2>&1 &
job=$!
# Each thread of what has not ended then tells where in the kernel it is.
(
  sleep "$time_limit"
  for thread in /proc/$job/task/*; do
    printf 'WAITS %s: %s\n' "$(cat "$thread/comm")" "$(cat "$thread/syscall")"
    cat "$thread/stack"
  done
  kill -KILL "$job"
) &
wait "$job"
status=$?
printf '\nRESULTS\n'
[ ! -e /root/mnt/results ] || cat /root/mnt/results
echo "END $status"
poweroff -f
