head -c 300000 /dev/urandom > disk.img
mkdir photos
head -c 50000 /dev/zero > photos/1.jpg
seq 5000 > access.log

$ zc-pv disk.img > copy.img
test $status = 0
cmp disk.img copy.img
rm copy.img

$ zc-pv -o copy.img disk.img
test $status = 0
cmp disk.img copy.img
rm copy.img

$ tar -c photos | zc-pv -s @photos | gzip > photos.tar.gz
test "$(tar -tzf photos.tar.gz | tail -n 1)" = photos/1.jpg

$ zc-pv -cN read disk.img | gzip | zc-pv -cN packed > disk.img.gz
gzip -dc disk.img.gz | cmp - disk.img

$ zc-pv -q -L 1M disk.img > copy.img
test ! -s "$err"
cmp disk.img copy.img
rm copy.img

zc-pv -q -L 1K -P transfer.pid disk.img > slow.img &
until test -s slow.img; do sleep 0.02; done
$ zc-pv -R "$(cat transfer.pid)" -L 0
test $status = 0
wait
cmp disk.img slow.img

$ zc-pv -S -s 64K disk.img > beginning
head -c 65536 disk.img | cmp - beginning

$ zc-pv -l access.log | gzip > access.log.gz
gzip -dc access.log.gz | cmp - access.log

$ zc-pv -f -F '%N %b of the copy, %{eta}' -N disk disk.img > copy.img
grep -q 'disk: *292KiB of the copy' "$err"
cmp disk.img copy.img
rm copy.img

$ zc-pv -n disk.img > copy.img 2> percentages
test "$(tail -n 1 percentages)" = 100
cmp disk.img copy.img
rm copy.img

$ zc-pv -q --json=progress.json disk.img > copy.img
tail -n 1 progress.json | grep -q '"bytes":300000,.*"state":"done"'

printf '#!/bin/sh\necho "$ZC_PV_PERCENT $ZC_PV_STATE" >> told\n' > tell
chmod +x tell
$ zc-pv --every 25 --on-progress ./tell disk.img > copy.img
test "$(tail -n 1 told)" = '100 done'

$ zc-pv -q --hash sha256 -o copy.img disk.img 2> SHA256SUMS
sha256sum -c --status SHA256SUMS
grep -q ' copy.img$' SHA256SUMS

$ zc-pv -EE disk.img > rescued.img
cmp disk.img rescued.img
